// Resolves a reference against a URL.
package main

import (
	"fmt"
	"net/url"
	"os"
)

func main() {
	base, err := url.Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	resolved, err := base.Parse(os.Args[2])
	if err != nil {
		panic(err)
	}
	fmt.Println(resolved)
}
