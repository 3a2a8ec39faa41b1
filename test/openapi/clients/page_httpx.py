# The client of openapi-python-client: the number of clients of the organization, read page by page.
import os
from urllib.parse import parse_qs, urlparse

from business_api_client import AuthenticatedClient
from business_api_client.api.clients import list_clients

client = AuthenticatedClient(base_url=os.environ["API_URL"], token=os.environ["API_KEY"])
seen, before = set(), {}
while True:
    answer = list_clients.sync_detailed(client=client, limit=200, **before)
    seen.update(record.id for record in answer.parsed.data)
    link = answer.headers.get("link")
    if link is None:
        break
    before = {"before": parse_qs(urlparse(link[1 : link.index(">")]).query)["before"][0]}
print(len(seen))
