package console

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

// tokensPerPage bounds the tokens of one page.
const tokensPerPage = 100

// tokenList is the content of the page of tokens.
type tokenList struct {
	Rows []tokenRow
	All  bool // revoked and expired ones are shown, too
	Next uint64
}

// tokenRow is a token or a registered client certificate.
type tokenRow struct {
	access.Credential
	Preset string // "" if its scopes are those of none
	IsLive bool
	IsOwn  bool // the reader uses it now
}

// tokens lists the tokens. A token itself is never shown, because it is not stored.
func (v *visit) tokens() error {
	query := v.r.URL.Query()
	after, _ := strconv.ParseUint(query.Get("after"), 10, 64) // 0 begins at the first one
	list := tokenList{All: query.Has("all")}
	page, next, err := v.api.Tokens(v.r.Context(), access.Listing{After: after, Limit: tokensPerPage, OnlyLive: !list.All})
	if err != nil {
		return err
	}
	list.Next = next
	for _, c := range page {
		list.Rows = append(list.Rows, v.tokenRow(c, v.Now()))
	}
	return v.show("tokens", "Tokens", "Tokens", list)
}

func (v *visit) tokenRow(c access.Credential, now time.Time) tokenRow {
	row := tokenRow{Credential: c, IsLive: c.IsLive(now), IsOwn: !v.reader.IsOpen && c.ID == v.reader.ID}
	for _, preset := range access.Presets() {
		if sameScopes(c.Scopes, preset.Scopes(c.Zones)) {
			row.Preset = string(preset)
		}
	}
	return row
}

// sameScopes reports whether two lists without repetitions have the same scopes.
func sameScopes(a, b []access.Scope) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(scope access.Scope) bool { return !slices.Contains(b, scope) })
}

// revokeToken ends a token, if its name was typed. It may be that of the reader himself.
func (v *visit) revokeToken() error {
	id, ok := v.pathID("token")
	if !ok {
		return v.unknown()
	}
	page, _, err := v.api.Tokens(v.r.Context(), access.Listing{After: id - 1, Limit: 1})
	switch {
	case err != nil:
		return err
	case len(page) == 0 || page[0].ID != id:
		return fmt.Errorf("%w: there is no such token", service.ErrNotFound)
	}
	ctx, err := v.confirmed("name of the token", page[0].Name)
	if err != nil {
		return err
	}
	if err := v.api.RevokeToken(ctx, id, ""); err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("tokens?all&after=%d&done=revoke", id-1))
}
