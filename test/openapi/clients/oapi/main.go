// The client of oapi-codegen: the number of clients of the organization, read page by page.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"clients/oapiclient"
)

func main() {
	key := oapiclient.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
		return nil
	})
	client, err := oapiclient.NewClientWithResponses(os.Getenv("API_URL"), key)
	check(err)
	seen, limit := map[string]bool{}, int32(200)
	params := oapiclient.ListClientsParams{Limit: &limit}
	for {
		answer, err := client.ListClientsWithResponse(context.Background(), &params)
		check(err)
		for _, record := range answer.JSON200.Data {
			seen[record.Id] = true
		}
		link, _, found := strings.Cut(answer.HTTPResponse.Header.Get("Link"), ">")
		if !found {
			break
		}
		next, err := url.Parse(link[1:])
		check(err)
		before := next.Query().Get("before")
		params.Before = &before
	}
	fmt.Println(len(seen))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
