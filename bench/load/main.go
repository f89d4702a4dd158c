// Command load is the load generator of the benchmark. It reads one workload.Order as JSON
// from its standard input, asks in a closed loop and writes one workload.Summary as JSON to
// its standard output. It knows the protocols, but must not know the contenders.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"velocityd/bench/workload"
)

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	var order workload.Order
	if err := json.NewDecoder(in).Decode(&order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	summary, err := ask(ctx, order)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(summary); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}
