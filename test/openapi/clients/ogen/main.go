// The client of ogen: the number of clients of the organization, read page by page.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"clients/ogenclient"
)

type key struct{}

func (key) Bearer(context.Context, ogenclient.OperationName) (ogenclient.Bearer, error) {
	return ogenclient.Bearer{Token: os.Getenv("API_KEY")}, nil
}

func main() {
	client, err := ogenclient.NewClient(os.Getenv("API_URL"), key{})
	check(err)
	seen := map[string]bool{}
	params := ogenclient.ListClientsParams{Limit: ogenclient.NewOptInt32(200)}
	for {
		answer, err := client.ListClients(context.Background(), params)
		check(err)
		page, ok := answer.(*ogenclient.ClientListHeaders)
		if !ok {
			panic(fmt.Sprintf("%T", answer))
		}
		for _, record := range page.Response.Data {
			seen[record.ID] = true
		}
		link, _, found := strings.Cut(page.Link.Value, ">")
		if !found {
			break
		}
		next, err := url.Parse(link[1:])
		check(err)
		params.Before = ogenclient.NewOptString(next.Query().Get("before"))
	}
	fmt.Println(len(seen))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
