// Package crowdsec keeps the bans of a CrowdSec as overrides of zones. It owns the dialogue with CrowdSec's local API and which override
// belongs to it. It must not know how an override is stored.
package crowdsec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// longestPull bounds the wait for an answer. A list of 50,000 decisions takes LAPI some seconds.
	longestPull = time.Minute
	// mostBytes bounds an answer: about 300,000 decisions.
	mostBytes = 64 << 20
)

// LAPI is CrowdSec's local API, as a bouncer uses it.
type LAPI struct {
	URL  string // without a slash at its end, such as http://127.0.0.1:8080
	Key  string // of 'cscli bouncers add'
	HTTP *http.Client
}

// Decision is a decision of CrowdSec, in the words of its API.
type Decision struct {
	Type      string `json:"type"`     // such as ban, captcha
	Scope     string `json:"scope"`    // such as Ip, Range, Country
	Value     string `json:"value"`    // such as 203.0.113.9
	Duration  string `json:"duration"` // that is left, such as 3h59m49.3s
	Scenario  string `json:"scenario"` // the reason
	Simulated bool   `json:"simulated"`
}

// Stream is what has changed since the last pull, or all there is.
type Stream struct {
	New     []Decision `json:"new"`
	Deleted []Decision `json:"deleted"`
}

// Pull asks for what has changed since LAPI last answered this key, or for all. Of several decisions about the same value LAPI gives
// the one that ends last, and tells of an end when all have ended. It answers 200 also where its database failed in the middle of a
// list, so what is NOT in a list proves nothing. No error has the key or an address in it.
func (l LAPI) Pull(ctx context.Context, scopes string, all bool) (Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, longestPull)
	defer cancel()
	target := fmt.Sprintf("%s/v1/decisions/stream?startup=%t&scopes=%s", l.URL, all, url.QueryEscape(scopes))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return Stream{}, err
	}
	request.Header.Set("X-Api-Key", l.Key)
	request.Header.Set("User-Agent", "velocityd/1") // LAPI wants a name and a version
	response, err := l.HTTP.Do(request)
	if err != nil {
		return Stream{}, fmt.Errorf("ask CrowdSec: %w", err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return ReadStream(response.Body)
	case http.StatusForbidden, http.StatusUnauthorized:
		return Stream{}, fmt.Errorf("CrowdSec does not know the key (status %d): 'cscli bouncers add velocityd' makes one", response.StatusCode)
	}
	return Stream{}, fmt.Errorf("ask CrowdSec: status %d", response.StatusCode)
}

// ReadStream reads an answer of LAPI, of at most 64 MiB. An error quotes nothing of it.
func ReadStream(body io.Reader) (s Stream, err error) {
	limited := &io.LimitedReader{R: body, N: mostBytes + 1}
	err = json.NewDecoder(limited).Decode(&s)
	switch {
	case limited.N <= 0:
		return Stream{}, fmt.Errorf("the answer of CrowdSec has more than %d bytes", mostBytes)
	case err != nil:
		return Stream{}, errors.New("the answer of CrowdSec is no stream of decisions")
	}
	return s, nil
}
