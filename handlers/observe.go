package handlers

// Observed is what is known of an answered request besides its content.
type Observed struct {
	// Method is as the caller has written it, and may be any word.
	Method string
	// Route is the template of the request's path, such as /v1/zones/:id, or "" if no route
	// matches. The path itself may hold a bucket key.
	Route  string
	Status int
}
