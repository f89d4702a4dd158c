// Command envoy-lint reads a configuration of Envoy as Envoy would: each member must be a field of Envoy's own
// messages, each value of its type and in its bounds. It is for tests only, because Envoy itself can not be built from
// Go modules.
//
//	envoy-lint envoy.yaml
package main

import (
	"fmt"
	"os"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
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
	return protorange.Range(all.ProtoReflect(), validate)
}

// validate compares the whole message, and each one that is packed in it, such as a filter, with the bounds that Envoy
// has generated.
func validate(at protopath.Values) error {
	last := at.Index(-1)
	if kind := last.Step.Kind(); kind != protopath.RootStep && kind != protopath.AnyExpandStep {
		return nil
	}
	message := last.Value.Message().Interface()
	bounded, ok := message.(interface{ ValidateAll() error })
	if !ok {
		return fmt.Errorf("%s: %s has no bounds", at.Path, message.ProtoReflect().Descriptor().FullName())
	}
	if err := bounded.ValidateAll(); err != nil {
		return fmt.Errorf("%s: %w", at.Path, err)
	}
	return nil
}
