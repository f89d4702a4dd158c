package client

import "sync"

// Sizes of a budget. They are those that the AWS SDKs use in their standard mode: a hundred tries again in a row.
const (
	fullBudget = 500
	retryPrice = 5
	tryReward  = 1
)

// budget bounds how often a Client asks again while nearly everything fails, so that its callers do not
// multiply the load of a service that is down. It is a bucket of tokens: a try again takes some, and gets
// them back when it succeeds. A first try that succeeds adds one. When the tokens are spent, each check is
// asked once, until enough of them have succeeded.
type budget struct {
	mu    sync.Mutex
	spent float64 // of fullBudget
}

// take takes the price of a try again, and returns false if there is too little left. share is the part of
// the failed request that was the caller's: several callers may have shared it.
func (b *budget) take(share float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent+retryPrice*share > fullBudget {
		return false
	}
	b.spent += retryPrice * share
	return true
}

// reward gives tokens back after a try that the service has answered.
func (b *budget) reward(tokens float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = max(0, b.spent-tokens)
}
