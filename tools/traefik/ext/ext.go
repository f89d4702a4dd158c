// Package ext stands for the module of this name that is part of Traefik's repository and not of its module: fields
// that other editions of Traefik have, of which there are none here.
package ext

// HTTP is embedded in the configuration of HTTP.
type HTTP struct{}

// Router is embedded in the configuration of a router.
type Router struct{}
