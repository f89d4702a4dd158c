// Package console owns the pages on which people work: the answers to browsers below /console/, and the sessions of
// readers. It asks the HTTP interface, in process and with the reader's credential, for all that it shows and does. It
// must not know a store, SQL, or how a check is decided: it adds no query and no rule.
package console

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
)

// Path is where the console begins. Everything below it is the console's.
const Path = "/console/"

// Options are the parts and settings of New. API is required.
type Options struct {
	// API is the whole HTTP interface, of which the console is a client.
	API http.Handler
	// Limiter is asked before each log-in, in the zone LoginZone by the address of the reader, and Outcomes is told how it
	// ended. A LoginZone of 0 means that log-ins are not limited.
	Limiter   service.Checker
	Outcomes  service.OutcomeStore
	LoginZone int64
	// Proxies are believed when they say from which address a request comes.
	Proxies admission.Proxies
	// Key is the secret of 32 bytes by which sessions, and the keys in links, are sealed. All instances behind one address
	// need the same. Nil means a random one: sessions and links then end with the process.
	Key []byte
	// Logger gets a line for each page that a fault of the program keeps from being shown. Nil means no log.
	Logger *slog.Logger
	// Now tells the time by which sessions end. Nil means time.Now.
	Now func() time.Time
}

// console is the state of all pages. Nothing of it changes once pages and files are there.
type console struct {
	Options
	sessions sealer
	keys     sealer
	asked    sealer // addresses of pages
	pages    pages
	files    files
	origins  *http.CrossOriginProtection
	spelling spelling
	// playbooks are those of docs/playbooks.md. The first is the list of them.
	playbooks []playbook
}

// New returns the handler of everything below Path.
func New(o Options) (http.Handler, error) {
	if o.Key == nil {
		o.Key = make([]byte, keyLength)
		_, _ = rand.Read(o.Key) // it never fails
	}
	if len(o.Key) != keyLength {
		return nil, fmt.Errorf("%w: the console's key must have %d bytes, not %d", service.ErrInvalid, keyLength, len(o.Key))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &console{
		Options: o, sessions: newSealer(o.Key, "session"), keys: newSealer(o.Key, "key"),
		asked: newSealer(o.Key, "page"), origins: http.NewCrossOriginProtection(), spelling: newSpelling(),
	}
	ready := sync.OnceValues(c.prepare) // at the first request for a page: many instances never show one
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages, err := ready()
		if err != nil {
			c.showFault(w, r, "", err)
			return
		}
		pages.ServeHTTP(w, r)
	}), nil
}

// prepare reads the files and pages, and returns the handler of all of them.
func (c *console) prepare() (_ http.Handler, err error) {
	if c.files, err = readFiles(); err != nil {
		return nil, err
	}
	if c.pages, err = c.parsePages(); err != nil {
		return nil, err
	}
	if c.playbooks, err = readPlaybooks(); err != nil {
		return nil, err
	}
	return protected(c.routes()), nil
}

func (c *console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path+"static/{name}", c.files)
	mux.HandleFunc("GET "+Path+"login", c.showLogin)
	mux.HandleFunc("POST "+Path+"login", c.logIn)
	mux.HandleFunc("POST "+Path+"logout", c.logOut)
	for pattern, handle := range c.visits() {
		mux.HandleFunc(pattern, c.visited(handle))
	}
	return mux
}

// visits returns the pages and actions for known readers, by method and path.
func (c *console) visits() map[string]func(*visit) error {
	list := map[string]func(*visit) error{ // these have deadlines that are longer
		"GET " + Path + "history.csv":    exportHistory("csv"),
		"GET " + Path + "history.ndjson": exportHistory("ndjson"),
		"GET " + Path + "attacks":        byName((*visit).attacks, "users", "addresses"),
	}
	add := func(method, path string, handle func(*visit) error) {
		list[method+" "+Path+path] = withDeadline(handle)
	}
	shownZone, editZone := about((*visit).pathZone, (*visit).zone), about((*visit).pathZone, (*visit).editZone)
	shownOverride := about((*visit).pathOverride, (*visit).override)
	shownPreview := about((*visit).pathZone, (*visit).showPreview)
	writeZone, putBack := about((*visit).pathZone, (*visit).writeZone), again((*visit).putBack, (*visit).showRestoration)
	dropOverride := about((*visit).pathOverride, (*visit).dropOverride)
	add("GET", "{$}", byName((*visit).now, "zone"))
	add("GET", "history", byName((*visit).history, "zone"))
	add("GET", "locked", byName((*visit).locked, "zone"))
	add("POST", "locked/release", requiring(access.ScopeRelease, again((*visit).releaseSelected, (*visit).locked)))
	add("POST", "locked/release-all", requiring(access.ScopeRelease, again((*visit).releaseAll, (*visit).locked)))
	add("GET", "playbooks", (*visit).playbook)
	add("GET", "playbooks/{slug}", (*visit).playbook)
	add("GET", "zones", (*visit).zones)
	add("GET", "zones/new", requiring(access.ScopeZones, (*visit).newZone))
	add("POST", "zones/new", requiring(access.ScopeZones, again((*visit).makeZone, (*visit).newZone)))
	add("GET", "zones/{zone}", shownZone)
	add("GET", "zones/{zone}/edit", requiring(access.ScopeZones, editZone))
	add("POST", "zones/{zone}/edit", requiring(access.ScopeZones, again(writeZone, editZone)))
	add("GET", "zones/{zone}/versions", (*visit).versions)
	add("GET", "zones/{zone}/versions/{change}", requiring(access.ScopeZones, (*visit).showRestoration))
	add("POST", "zones/{zone}/versions/{change}", requiring(access.ScopeZones, putBack))
	add("POST", "zones/{zone}/delete", again(about((*visit).pathZone, (*visit).dropZone), shownZone))
	add("GET", "zones/{zone}/preview/{job}", shownPreview)
	add("POST", "zones/{zone}/preview/{job}/cancel", again(about((*visit).pathZone, (*visit).cancelPreview), shownPreview))
	add("GET", "overrides", byName((*visit).overrides, "zone"))
	add("POST", "overrides", again((*visit).addOverride, (*visit).overrides))
	add("GET", "overrides/{zone}/{override}", shownOverride)
	add("POST", "overrides/{zone}/{override}", again(about((*visit).pathOverride, (*visit).changeOverride), shownOverride))
	add("POST", "overrides/{zone}/{override}/delete", again(dropOverride, shownOverride))
	add("GET", "audit", byName((*visit).audit, "zone"))
	add("GET", "tokens", (*visit).tokens)
	add("POST", "tokens/{token}/revoke", again((*visit).revokeToken, (*visit).tokens))
	add("GET", "health", (*visit).health)
	add("GET", "health/doctor", (*visit).doctor)
	add("GET", "health/webhooks/{webhook}", (*visit).deliveries)
	add("POST", "health/webhooks/{webhook}/resend", again((*visit).resend, (*visit).deliveries))
	add("GET", "search", (*visit).search)
	add("POST", "search", again((*visit).postSearch, (*visit).search))
	add("GET", "keys/{key}", (*visit).key)
	add("GET", "keys/{key}/beside", (*visit).relatedToKey)
	add("POST", "keys/{key}/release", again((*visit).release, (*visit).key))
	add("POST", "keys/{key}/override", again((*visit).setOverride, (*visit).key))
	add("GET", "txns/{id}", (*visit).txn)
	add("GET", "{path...}", (*visit).unknown)
	return list
}

// unknown answers for a path that is not a page.
func (v *visit) unknown() error {
	return v.fail(http.StatusNotFound, "There is no such page.",
		"The address is wrong, or the page has moved. The menu above leads to all pages.")
}
