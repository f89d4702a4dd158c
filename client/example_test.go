package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"velocityd/client"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/memory"
)

// A login server asks before each attempt, for the user and for the address, and
// says afterwards how the login ended.
func Example() {
	// In earnest this is a running velocityd, and its address a setting.
	memory := memory.New()
	running := httptest.NewServer(handlers.New(handlers.Options{
		Limiter: service.NewLimiter(memory, service.LimiterOptions{Zones: memory, Timeout: time.Second}), Reader: memory,
		Writer: memory,
	}))
	defer running.Close()

	velocity, err := client.New(running.URL) // one for the whole program
	if err != nil {
		fmt.Println(err)
		return
	}
	defer velocity.Close()
	for id, rate := range map[int64]int{1: 2, 2: 20} { // mostly done once, by 'velocityd zone set'
		zone := service.Zone{ID: id, Rate: rate, Window: time.Minute}
		if _, err := velocity.PutZone(context.Background(), zone, service.Match{}, "setup"); err != nil {
			fmt.Println(err)
			return
		}
	}

	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		decision, err := velocity.Check(
			ctx, service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}, {ZoneID: 2, Key: "203.0.113.9"}}})
		switch {
		case err != nil: // the choice of this server: no login goes unchecked
			fmt.Println("sorry, try again soon")
		case decision.Blocked:
			fmt.Println("too many attempts")
		default:
			fmt.Println("ask for the password, attempts left:", decision.Verdicts[0].Remaining())
			err = velocity.Report(ctx, service.Report{TxnID: decision.TxnID(), Outcome: service.OutcomeFailure})
		}
		cancel()
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// ask for the password, attempts left: 1
	// ask for the password, attempts left: 0
	// too many attempts
}
