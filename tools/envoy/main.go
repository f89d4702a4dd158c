// Command envoy-lint reads a configuration of Envoy as Envoy would: each member must be a field of Envoy's own messages, each value of
// its type and in its bounds. It is for tests only, because Envoy itself can not be built from Go modules.
//
//	envoy-lint envoy.yaml
package main

import (
	"fmt"
	"os"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: envoy-lint FILE")
		os.Exit(2)
	}
	if err := lint(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "envoy-lint:", err)
		os.Exit(1)
	}
}

// lint returns an error for a file that Envoy would refuse.
func lint(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	all := new(bootstrap.Bootstrap)
	if err := protojson.Unmarshal(document, all); err != nil {
		return err
	}
	if err := all.ValidateAll(); err != nil {
		return err
	}
	for _, listener := range all.GetStaticResources().GetListeners() {
		for _, chain := range listener.GetFilterChains() {
			for _, filter := range chain.GetFilters() {
				if err := lintFilter(filter.GetTypedConfig()); err != nil {
					return fmt.Errorf("listener %s, filter %s: %w", listener.GetName(), filter.GetName(), err)
				}
			}
		}
	}
	return nil
}

// lintFilter validates a filter and, if it is an HTTP connection manager, its HTTP filters.
func lintFilter(packed *anypb.Any) error {
	message, err := packed.UnmarshalNew()
	if err != nil {
		return err
	}
	if err := validate(message); err != nil {
		return err
	}
	if http, ok := message.(*manager.HttpConnectionManager); ok {
		for _, filter := range http.GetHttpFilters() {
			if err := lintFilter(filter.GetTypedConfig()); err != nil {
				return fmt.Errorf("http filter %s: %w", filter.GetName(), err)
			}
		}
	}
	return nil
}

// validate calls the bounds that Envoy has generated for a message.
func validate(message proto.Message) error {
	bounded, ok := message.(interface{ ValidateAll() error })
	if !ok {
		return fmt.Errorf("%s has no bounds", message.ProtoReflect().Descriptor().FullName())
	}
	return bounded.ValidateAll()
}
