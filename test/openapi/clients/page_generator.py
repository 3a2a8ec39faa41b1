# The client of OpenAPI Generator: the number of clients of the organization, read page by page.
import os
from urllib.parse import parse_qs, urlparse

from openapi_client import ApiClient, ClientsApi, Configuration

clients = ClientsApi(ApiClient(Configuration(host=os.environ["API_URL"], access_token=os.environ["API_KEY"])))
seen, before = set(), {}
while True:
    answer = clients.list_clients_with_http_info(limit=200, **before)
    seen.update(record.id for record in answer.data.data)
    link = {name.lower(): value for name, value in answer.headers.items()}.get("link")
    if link is None:
        break
    before = {"before": parse_qs(urlparse(link[1 : link.index(">")]).query)["before"][0]}
print(len(seen))
