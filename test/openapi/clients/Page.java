import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.ClientsApi;
import org.openapitools.client.model.ClientList;
import org.springframework.http.ResponseEntity;

/** The client of OpenAPI Generator: the number of clients of the organization, read page by page. */
public class Page {
    public static void main(String[] args) throws Exception {
        ApiClient client = new ApiClient();
        client.setBasePath(System.getenv("API_URL"));
        client.setBearerToken(System.getenv("API_KEY"));
        ClientsApi clients = new ClientsApi(client);
        Set<String> seen = new HashSet<>();
        String before = null;
        while (true) {
            ResponseEntity<ClientList> answer = clients.listClientsWithHttpInfo(200, before, null);
            answer.getBody().getData().forEach(record -> seen.add(record.getId()));
            List<String> links = answer.getHeaders().get("Link");
            if (links == null) break;
            before = links.get(0).replaceAll(".*[?&]before=([^&>]*).*", "$1");
        }
        System.out.println(seen.size());
    }
}
