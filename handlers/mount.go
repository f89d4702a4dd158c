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
func (i *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { i.echo.ServeHTTP(w, r) }

// Mount lets a door answer one path, or all below it if it ends with a slash: an interface of another protocol or for
// people. The door finds out by itself who asks, by asking this interface in process. Its requests are logged and
// counted as those of routes, and so are its refusals, of which it tells the admission.Note of the request. It must be
// called before anything is served.
func (i *API) Mount(path string, door http.Handler) {
	if strings.HasSuffix(path, "/") {
		path += "*"
	}
	i.server.mounted[path] = true
	i.echo.Any(path, echoHandler(func(x *exchange) error { return x.serveMounted(door) }))
}

// serveMounted has a door answer the request. It returns why the door refused it, unless a question of the door has
// told that.
func (x *exchange) serveMounted(door http.Handler) (err error) {
	ctx, entry := admission.WithLogEntry(x.Request().Context())
	asked := x.Request().WithContext(ctx)
	asked.Header.Set(fieldRequestID, x.id) // of its questions, too
	door.ServeHTTP(x.Response(), asked)
	if _, template, _ := strings.Cut(asked.Pattern, "/"); template != "" {
		x.template = "/" + strings.TrimSuffix(template, "{$}") // the end of a pattern of net/http
	}
	x.caller.Caller, err = entry.Result()
	return err
}

// route returns the template of the request's path, which a door may know in more detail than the router.
func (x *exchange) route() string {
	if x.template != "" {
		return x.template
	}
	return x.Path()
}
