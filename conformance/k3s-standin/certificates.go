package main

import (
	"crypto"
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
	"time"
)

// renewal is how long before their end K3s makes new certificates at a start.
const renewal = 90 * 24 * time.Hour

// identity is a certificate with its key, on disk and in memory.
type identity struct {
	certificatePath, keyPath string
	certificate              *x509.Certificate
	key                      crypto.Signer
	chain, keyPEM            []byte
}

// obtain reads an identity, or makes one if there is none or its end is near. Without an issuer it is its own.
func obtain(folder, name string, issuer *identity, days int, ahead time.Duration, template *x509.Certificate) (*identity, error) {
	one := &identity{certificatePath: filepath.Join(folder, name+".crt"), keyPath: filepath.Join(folder, name+".key")}
	if one.read() == nil && time.Until(one.certificate.NotAfter) > renewal {
		return one, nil
	}
	if one.certificate != nil {
		days = 365
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	// K3s counts from the moment at which it makes them.
	template.NotBefore = time.Now().Add(ahead)
	if issuer != nil && template.NotBefore.Before(issuer.certificate.NotBefore) {
		template.NotBefore = issuer.certificate.NotBefore
	}
	template.NotAfter = template.NotBefore.Add(time.Duration(days) * 24 * time.Hour)
	parent, signer := template, crypto.Signer(key)
	if issuer != nil {
		parent, signer = issuer.certificate, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(one.certificatePath, chain, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(one.keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600); err != nil {
		return nil, err
	}
	return one, one.read()
}

func (one *identity) read() error {
	var err error
	if one.chain, err = os.ReadFile(one.certificatePath); err != nil {
		return err
	}
	if one.keyPEM, err = os.ReadFile(one.keyPath); err != nil {
		return err
	}
	block, _ := pem.Decode(one.chain)
	if block == nil {
		return os.ErrInvalid
	}
	if one.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		return err
	}
	if block, _ = pem.Decode(one.keyPEM); block == nil {
		return os.ErrInvalid
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	one.key = key.(crypto.Signer)
	return nil
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
}

func serving(addresses []string) *x509.Certificate {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "k3s"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost", "kubernetes"},
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	return template
}

func administrator() *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}
