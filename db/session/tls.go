package session

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/files"
	"velocityd/service"
)

// TLSFiles name the PEM files of TLS to the database. The zero value means that the DSN
// alone says whether there is TLS.
type TLSFiles struct {
	// CA has the certificates that the server's must be signed by; empty means those that
	// the machine trusts.
	CA string
	// Cert and Key are the account's own certificate, for one that was made with REQUIRE
	// X509 or the like. They are read anew for each connection.
	Cert, Key string
}

// verifyCA is the parameter of a DSN by which the server's certificate may name any host, as MySQL
// makes its own ones.
const verifyCA = "tls=verify-ca"

// cutVerifyCA returns dsn without verifyCA, and says whether it was there. The driver does not know it.
func cutVerifyCA(dsn string) (rest string, found bool) {
	slash := strings.LastIndex(dsn, "/") + 1
	before, params, _ := strings.Cut(dsn[slash:], "?")
	list := strings.Split(params, "&")
	kept := slices.DeleteFunc(slices.Clone(list), func(param string) bool { return param == verifyCA })
	switch {
	case len(kept) == len(list):
		return dsn, false
	case len(kept) == 0:
		return dsn[:slash] + before, true
	}
	return dsn[:slash] + before + "?" + strings.Join(kept, "&"), true
}

// verifyChain makes config verify the signer of the server's certificate, but not its host.
func verifyChain(config *tls.Config) {
	config.InsecureSkipVerify = true // of the two, the driver's and this one, which follows
	config.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
		for _, cert := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(cert)
		}
		if _, err := state.PeerCertificates[0].Verify(options); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}

// IsUnverified reports whether err says that the certificate of the database's server is not believed.
func IsUnverified(err error) bool {
	return errors.Is(err, ErrUnreached) && errors.As(err, new(*tls.CertificateVerificationError))
}

// WithTLS returns dsn with TLS by files. The server's certificate is always verified, for
// the host of the DSN that it is at, unless the DSN says tls=verify-ca. The files must be readable
// now, and the CA's is not read again. Other packages of this process can use the DSN that is
// returned, and other processes cannot. The error wraps service.ErrInvalid if the files or the DSN
// are wrong.
func WithTLS(dsn string, files TLSFiles) (string, error) {
	dsn, anyHost := cutVerifyCA(dsn)
	switch {
	case files == (TLSFiles{}) && anyHost:
		return "",
			fmt.Errorf("%w: %s in the dsn needs the file of the authorities (--db-tls-ca)", service.ErrInvalid, verifyCA)
	case files == (TLSFiles{}):
		return dsn, nil
	case anyHost && files.CA == "":
		return "",
			fmt.Errorf("%w: %s with the authorities that the machine trusts would let any server in: name a file (--db-tls-ca)",
				service.ErrInvalid, verifyCA)
	}
	configs, err := ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	switch cfg := configs[0]; {
	case cfg.TLSConfig != "":
		return "",
			fmt.Errorf("%w: dsn has a parameter tls, and files of TLS are named besides: leave one out", service.ErrInvalid)
	case cfg.Net == "unix":
		return "", fmt.Errorf("%w: files of TLS are named, but the dsn leads to a socket", service.ErrInvalid)
	}
	ca, err := files.readCA()
	if err != nil {
		return "", fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	config, err := files.config(ca)
	if err != nil {
		return "", fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	if anyHost {
		verifyChain(config)
	}
	// The driver looks configurations up by name. The same name always means the same.
	name := fmt.Sprintf("velocityd-%x", sha256.Sum256([]byte(strings.Join([]string{
		string(ca), files.Cert, files.Key,
		strconv.FormatBool(anyHost),
	}, "\x00"))))
	if err := mysql.RegisterTLSConfig(name, config); err != nil {
		return "", fmt.Errorf("register the configuration of TLS: %w", err)
	}
	sign := "?"
	if strings.Contains(dsn[strings.LastIndex(dsn, "/"):], "?") {
		sign = "&"
	}
	return dsn + sign + "tls=" + name, nil
}

// readCA returns the text of the file CA, or nothing if none is named.
func (f TLSFiles) readCA() ([]byte, error) {
	if f.CA == "" {
		return nil, nil
	}
	return files.Read(f.CA, files.LongLimit)
}

func (f TLSFiles) config(ca []byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", f.CA)
		}
	}
	if f.Cert == "" && f.Key == "" {
		return config, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("a client certificate needs both files, of the certificate and of its key")
	}
	load := func() (*tls.Certificate, error) {
		cert, err := files.Read(f.Cert, files.LongLimit)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		key, err := files.ReadSecret(f.Key, files.ShortLimit)
		if err != nil {
			return nil, fmt.Errorf("read key of client certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read client certificate %s: %w", f.Cert, err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return config, nil
}
