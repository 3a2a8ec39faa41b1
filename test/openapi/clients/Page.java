import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.ClientsApi;
import org.openapitools.client.model.ClientRecord;

/** The client of OpenAPI Generator: the number of clients of the organization, read page by page. */
public class Page {
    public static void main(String[] args) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(System.getenv("API_URL"));
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + System.getenv("API_KEY")));
        ClientsApi clients = new ClientsApi(client);
        Set<String> seen = new HashSet<>();
        String before = null;
        while (true) {
            var answer = clients.listClientsWithHttpInfo(200, before, null);
            answer.getData().getData().forEach(record -> seen.add(record.getId()));
            List<String> links = answer.getHeaders().getOrDefault("link", List.of());
            if (links.isEmpty()) break;
            before = links.get(0).replaceAll(".*[?&]before=([^&>]*).*", "$1");
        }
        System.out.println(seen.size());
    }
}
