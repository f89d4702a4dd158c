//go:build doors

package doors_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificates are files: an authority, and what it has signed for velocityd and for a gateway.
type certificates struct {
	ca, server, serverKey, client, clientKey string
}

func newCertificates(t *testing.T) certificates {
	t.Helper()
	folder := t.TempDir()
	authority, key := sign(t, "authority", nil, nil)
	c := certificates{ca: filepath.Join(folder, "ca.pem")}
	write(t, c.ca, "CERTIFICATE", authority.Raw)
	pair := func(name string) (certificate, private string) {
		signed, key := sign(t, name, authority, key)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		certificate, private = filepath.Join(folder, name+".pem"), filepath.Join(folder, name+".key")
		write(t, certificate, "CERTIFICATE", signed.Raw)
		write(t, private, "PRIVATE KEY", der)
		return certificate, private
	}
	c.server, c.serverKey = pair("server")
	c.client, c.clientKey = pair("client")
	return c
}

// sign makes a certificate for 127.0.0.1 that an authority has signed, or, without one, the authority's.
func sign(t *testing.T, name string, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wanted := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		by, byKey, wanted.IsCA, wanted.BasicConstraintsValid = wanted, key, true, true
		wanted.KeyUsage |= x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, wanted, by, key.Public(), byKey)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed, key
}

func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
