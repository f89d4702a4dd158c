// Package handlerstest has the parts that tests of listeners share: certificates, folders of secrets, and a log.
package handlerstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs certificates for tests.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// PEM is its own certificate.
	PEM []byte
	// Pool holds its own certificate alone.
	Pool *x509.CertPool
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// Loaded returns the pair as package tls takes it.
func (p Pair) Loaded(tb testing.TB) tls.Certificate {
	tb.Helper()
	loaded, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		tb.Fatal(err)
	}
	return loaded
}

// NewAuthority makes an authority.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{Pool: x509.NewCertPool()}
	a.key = newKey(tb)
	template := newTemplate(tb, pkix.Name{CommonName: "authority"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a.certificate, a.PEM = sign(tb, template, template, &a.key.PublicKey, a.key)
	a.Pool.AddCert(a.certificate)
	return a
}

// Issue returns a certificate of this name for servers on 127.0.0.1 and for clients.
func (a *Authority) Issue(tb testing.TB, name string) Pair {
	tb.Helper()
	return a.IssueTo(tb, pkix.Name{CommonName: name})
}

// ServerTLS returns the settings of a server whose certificate the authority has signed, and that asks for those of
// callers.
func (a *Authority) ServerTLS(tb testing.TB) *tls.Config {
	tb.Helper()
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.Issue(tb, "velocityd").Loaded(tb)},
		NextProtos: []string{"h2", "http/1.1"},
		ClientCAs:  a.Pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}
}

// IssueTo is Issue for a whole subject, whose common name is the server's.
func (a *Authority) IssueTo(tb testing.TB, subject pkix.Name) Pair {
	tb.Helper()
	key := newKey(tb)
	template := newTemplate(tb, subject)
	template.DNSNames, template.IPAddresses = []string{subject.CommonName}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	_, cert := sign(tb, template, a.certificate, &key.PublicKey, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return Pair{Cert: cert, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func newTemplate(tb testing.TB, subject pkix.Name) *x509.Certificate {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func sign(
	tb testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey,
) (*x509.Certificate, []byte) {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		tb.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return made, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
