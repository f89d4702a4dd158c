package handlers

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"velocityd/handlers/admission"
)

// API is the HTTP interface on one listener.
type API struct {
	server *server
	echo   *echo.Echo
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.echo.ServeHTTP(w, r) }

// Mount serves one path by another handler, or all below it if it ends with a slash: another protocol, or pages. That
// handler identifies its callers by calling this API in process. Its requests are logged and counted as those of
// routes, and so are its refusals, which it writes into the admission.LogEntry of the request. Mount must be called
// before any request is served.
func (a *API) Mount(path string, handler http.Handler) {
	if strings.HasSuffix(path, "/") {
		path += "*"
	}
	a.server.mounted[path] = true
	a.echo.Any(path, echoHandler(func(x *exchange) error { return x.serveMounted(handler) }))
}

// serveMounted answers the request by a mounted handler. It returns the error of a refusal, unless a call of that
// handler has logged it.
func (x *exchange) serveMounted(handler http.Handler) (err error) {
	ctx, entry := admission.WithLogEntry(x.Request().Context())
	request := x.Request().WithContext(ctx)
	request.Header.Set(fieldRequestID, x.id) // of the calls of the handler, too
	handler.ServeHTTP(x.Response(), request)
	if _, template, _ := strings.Cut(request.Pattern, "/"); template != "" {
		x.template = "/" + strings.TrimSuffix(template, "{$}") // the end of a pattern of net/http
	}
	x.caller.Caller, err = entry.Result()
	return err
}

// route returns the template of the request's path. A mounted handler may know it in more detail than the router.
func (x *exchange) route() string {
	if x.template != "" {
		return x.template
	}
	return x.Path()
}
