package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"velocityd/api"
	"velocityd/service/access"
)

// pathTokens is the path of tokens.
const pathTokens = "/v1/tokens"

// Tokens returns a page of tokens and registered client certificates by id, and the After of the next page, which is 0
// behind the last one. IsLive of a credential goes by the clock of the caller. The client's own token needs the scope
// admin.
func (c *Client) Tokens(ctx context.Context, l access.Listing) (page []access.Credential, next uint64, err error) {
	values := url.Values{"after": {strconv.FormatUint(l.After, 10)}, "limit": {strconv.Itoa(l.Limit)}}
	if l.OnlyLive {
		values.Set("live", "true")
	}
	answer, err := ask[api.Tokens](
		ctx, c, request{action: "list tokens", method: http.MethodGet, path: pathTokens + "?" + values.Encode()})
	return answer.Tokens, answer.Next, err
}

// RevokeToken ends a token or a registered client certificate for good: every instance refuses it within five seconds.
// It may be that of the client itself. The error wraps service.ErrNotFound if there is none, and service.ErrConflict if
// it was revoked before. principal is the caller's name, or empty.
func (c *Client) RevokeToken(ctx context.Context, id uint64, principal string) error {
	_, err := c.send(ctx, request{
		action: fmt.Sprintf("revoke token %d", id), method: http.MethodDelete, path: fmt.Sprintf("%s/%d", pathTokens, id),
		principal: principal,
	})
	return err
}
