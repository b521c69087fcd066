// external-dns PORT SECRET - keeps names of apps.z.example as external-dns does: its provider rfc2136 lists the zone by AXFR, its plan
// finds out what is to change, the provider sends the update; all signed with the key ddns. Ends with status 1 at the
// first thing that is not as it was wished.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider"
	"sigs.k8s.io/external-dns/provider/rfc2136"
)

var (
	filter  = endpoint.NewDomainFilter([]string{"apps.z.example"})
	managed = []string{"A", "AAAA", "CNAME", "TXT"}
)

func fail(what string, args ...any) {
	fmt.Printf(what+"\n", args...)
	os.Exit(1)
}

func at(port int, key, secret string) provider.Provider {
	made, err := rfc2136.New(context.Background(), &externaldns.Config{
		RFC2136Host:                  []string{"127.0.0.1"},
		RFC2136Port:                  port,
		RFC2136Zone:                  []string{"z.example"},
		RFC2136TSIGKeyName:           key,
		RFC2136TSIGSecret:            secret,
		RFC2136TSIGSecretAlg:         "hmac-sha256",
		RFC2136AXFR:                  true,
		RFC2136BatchChangeSize:       50,
		RFC2136LoadBalancingStrategy: "disabled",
	}, filter)
	if err != nil {
		fail("no provider: %v", err)
	}
	return made
}

// What the zone has below apps.z.example, a record a line.
func listed(from provider.Provider) ([]*endpoint.Endpoint, string) {
	all, err := from.Records(context.Background())
	if err != nil {
		fail("the zone is not listed: %v", err)
	}
	if len(all) == 0 {
		fail("the zone is listed as empty")
	}
	var ours []*endpoint.Endpoint
	for _, record := range all {
		if filter.Match(record.DNSName) {
			ours = append(ours, record)
		}
	}
	return all, text(ours)
}

func text(records []*endpoint.Endpoint) string {
	var lines []string
	for _, record := range records {
		for _, target := range record.Targets {
			lines = append(lines, record.DNSName+" "+record.RecordType+" "+strings.TrimSuffix(strings.Trim(target, "\""), "."))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func changes(current, wished []*endpoint.Endpoint) *plan.Changes {
	made := plan.Plan{
		Current:        current,
		Desired:        wished,
		Policies:       []plan.Policy{&plan.SyncPolicy{}},
		DomainFilter:   endpoint.MatchAllDomainFilters{filter},
		ManagedRecords: managed,
	}
	return made.Calculate().Changes
}

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fail("no port: %v", err)
	}
	dunlin := at(port, "ddns", os.Args[2])
	record := func(name, kind string, targets ...string) *endpoint.Endpoint {
		return endpoint.NewEndpointWithTTL(name+".apps.z.example", kind, 300, targets...)
	}
	var many []*endpoint.Endpoint
	for i := range 200 {
		many = append(many, record(fmt.Sprintf("n%d", i), "A", fmt.Sprintf("192.0.2.%d", i)))
	}
	for round, wished := range [][]*endpoint.Endpoint{
		{record("shop", "A", "192.0.2.10"), record("web", "CNAME", "shop.apps.z.example"), record("a-shop", "TXT", "heritage=external-dns")},
		{record("shop", "A", "192.0.2.11", "192.0.2.12"), record("api", "AAAA", "2001:db8::1"), record("a-shop", "TXT", "heritage=another")},
		many,
		{},
	} {
		current, _ := listed(dunlin)
		if err := dunlin.ApplyChanges(context.Background(), changes(current, wished)); err != nil {
			fail("round %d: not applied: %v", round, err)
		}
		after, found := listed(dunlin)
		if found != text(wished) {
			fail("round %d: wished:\n%s\nfound:\n%s", round, text(wished), found)
		}
		if more := changes(after, wished); more.HasChanges() {
			fail("round %d: and still there is something to change: %v", round, more)
		}
	}
	if records, err := at(port, "nobody", os.Args[2]).Records(context.Background()); err == nil && len(records) > 0 {
		fail("an unknown key has the zone listed")
	}
	fmt.Println("all as it was wished")
}
