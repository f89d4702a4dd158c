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
func (p Pair) Loaded(t testing.TB) tls.Certificate {
	t.Helper()
	loaded, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Pool: x509.NewCertPool()}
	a.key = newKey(t)
	template := newTemplate(t, "authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a.certificate, a.PEM = sign(t, template, template, &a.key.PublicKey, a.key)
	a.Pool.AddCert(a.certificate)
	return a
}

// Issue returns a certificate of this name for servers on 127.0.0.1 and for clients.
func (a *Authority) Issue(t testing.TB, name string) Pair {
	t.Helper()
	key := newKey(t)
	template := newTemplate(t, name)
	template.DNSNames, template.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	_, cert := sign(t, template, a.certificate, &key.PublicKey, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{Cert: cert, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newTemplate(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func sign(t testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
