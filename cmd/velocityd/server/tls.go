package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"velocityd/internal/files"
)

// lookAgain is the time between two looks at the files of TLS. Their contents are
// compared, because a notice of the file system does not come for all ways in which
// files are replaced: Kubernetes swaps a symbolic link two folders above.
const lookAgain = 2 * time.Second

// TLSFiles name files in PEM. ClientCA may be empty.
type TLSFiles struct{ Cert, Key, ClientCA string }

// Certificates are the files of TLS, and the certificates that were loaded from them last.
type Certificates struct {
	files TLSFiles
	// observe is called after each attempt to load files that have changed, and after
	// each that was asked for, with when the certificate in force expires, and the error or nil. It
	// may be nil.
	observe func(expires time.Time, err error)
	current atomic.Pointer[tls.Config]
	tried   noted[[sha256.Size]byte] // the sum of the last attempt
}

// LoadCertificates reads the files and puts them in force.
func LoadCertificates(files TLSFiles) (*Certificates, error) {
	c := &Certificates{files: files}
	_, err := c.load(false)
	return c, err
}

// Config returns the settings of TLS for a listener. Each handshake uses the
// certificate that was loaded last. Connections that were made before go on.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// contents are the files as they were read.
type contents struct{ cert, key, clientCA []byte }

// read reads the files.
func (c *Certificates) read() (read contents, err error) {
	read.cert, err = files.Read(c.files.Cert, files.LongLimit)
	if err == nil {
		read.key, err = files.ReadSecret(c.files.Key, files.ShortLimit)
	}
	if err == nil && c.files.ClientCA != "" {
		read.clientCA, err = files.Read(c.files.ClientCA, files.LongLimit)
	}
	if err != nil {
		return contents{}, fmt.Errorf("read file of TLS: %w", err)
	}
	return read, nil
}

// sum tells contents apart, and the errors of reading them.
func (r contents) sum(err error) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %v", r.cert, r.key, r.clientCA, err))
}

// load reads the files and puts them in force, if they are others than before or a caller asks for it. On an error, the
// files before stay in force.
func (c *Certificates) load(isAsked bool) (isNew bool, err error) {
	read, err := c.read()
	if isNew = c.tried.changes(read.sum(err)) || isAsked; isNew && err == nil {
		err = c.use(read)
	}
	return isNew, err
}

// use puts contents in force.
func (c *Certificates) use(read contents) error {
	pair, err := tls.X509KeyPair(read.cert, read.key)
	if err != nil {
		return fmt.Errorf("load certificate %s and key %s: %w", c.files.Cert, c.files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
	}
	if c.files.ClientCA != "" {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !config.ClientCAs.AppendCertsFromPEM(read.clientCA) {
			return fmt.Errorf("load certificates of client CAs: %s has none in PEM", c.files.ClientCA)
		}
	}
	c.current.Store(config)
	return nil
}

// expires returns when the certificate in force expires.
func (c *Certificates) expires() time.Time { return c.current.Load().Certificates[0].Leaf.NotAfter }

// Watch loads files that have changed, and all files on each hangup, until ctx ends. It
// logs the certificate that it has loaded, and errors, those of unchanged files once.
func (c *Certificates) Watch(ctx context.Context, logger *slog.Logger, hangups <-chan os.Signal) {
	poll(ctx, every(lookAgain), hangups, func(isWoken bool) {
		isNew, err := c.load(isWoken)
		switch {
		case !isNew:
			return
		case err != nil:
			logger.LogAttrs(ctx, slog.LevelError, "certificate not loaded; the one before stays in force",
				slog.String("error", err.Error()), slog.Time("not_after", c.expires()))
		default:
			c.logInForce(ctx, logger)
		}
		if c.observe != nil {
			c.observe(c.expires(), err)
		}
	})
}

// logInForce logs which certificate is in force.
func (c *Certificates) logInForce(ctx context.Context, logger *slog.Logger) {
	leaf := c.current.Load().Certificates[0].Leaf
	names := slices.Clone(leaf.DNSNames)
	for _, address := range leaf.IPAddresses {
		names = append(names, address.String())
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "certificate loaded", slog.String("file", c.files.Cert),
		slog.Any("names", names), slog.Time("not_after", leaf.NotAfter))
}
