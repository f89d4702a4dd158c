package ask

import (
	"crypto/x509"
	"errors"
	"fmt"

	"velocityd/client"
	"velocityd/cmd/velocityd/shell"
	"velocityd/internal/files"
	"velocityd/service"
)

// ServiceFlags tell which running service to ask.
type ServiceFlags struct {
	URL        string `name:"url" env:"VELOCITY_URL" placeholder:"URL" help:"Ask the service at this address, such as http://127.0.0.1:8080, and no database."`
	CA         string `name:"ca" env:"VELOCITY_CA" placeholder:"FILE" help:"With --url https://...: certificates, in PEM, of those who may sign the service's. Left out: those that this machine trusts."`
	TokenFlags `embed:""`
	version    string // of the program
}

// AfterApply implements kong's hook that is called when all flags have values.
func (f *ServiceFlags) AfterApply(p *shell.Process) error {
	f.inherit(p)
	return nil
}

// inherit takes over the parts of the process that no flag has.
func (f *ServiceFlags) inherit(p *shell.Process) {
	f.version = p.Version
	f.inherited, _ = p.LookupEnv("VELOCITY_TOKEN")
}

// Client returns a client of the service at --url. It connects to nothing. The errors are shell.UsageErrors.
func (f ServiceFlags) Client(options ...client.Option) (*client.Client, error) {
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	options = append(options, client.WithUserAgent("velocityd/"+f.version), client.WithToken(token))
	if f.CA != "" {
		roots, err := ReadRoots(f.CA)
		if err != nil {
			return nil, shell.Usagef("--ca (VELOCITY_CA): %w", err)
		}
		options = append(options, client.WithRootCAs(roots))
	}
	remote, err := client.New(f.URL, options...)
	if errors.Is(err, service.ErrInvalid) {
		return nil, shell.Usagef("--url must be the address of a service, such as http://127.0.0.1:8080")
	}
	return remote, err
}

// ReadRoots returns the certificates of a file.
func ReadRoots(path string) (*x509.CertPool, error) {
	text, err := files.Read(path, files.LongLimit)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return roots, nil
}
