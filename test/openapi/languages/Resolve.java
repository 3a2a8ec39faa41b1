import java.net.URI;
import java.net.URL;

/** Resolves a reference against a URL with both resolvers of the standard library. */
class Resolve {
  public static void main(String[] arguments) throws Exception {
    System.out.println(URI.create(arguments[0]).resolve(arguments[1]));
    System.out.println(new URL(new URL(arguments[0]), arguments[1]));
  }
}
