package cli

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
)

// certificate returns the server's certificate and the PEM that clients can trust: the file of the certificate, whose
// last one is that of the authority or the server's own.
func (o devOptions) certificate() (tls.Certificate, []byte, error) {
	if o.data != nil {
		return o.data.certificate()
	}
	if o.certFile == "" {
		return apiserver.NewCertificate()
	}
	trusted, err := kubeconfig.ReadFile(o.certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return o.makeCertificate()
	}
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read the certificate: %w", err)
	}
	key, err := kubeconfig.ReadFile(o.keyFile)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read the server key: %w", err)
	}
	cert, err := tls.X509KeyPair(trusted, key)
	if err != nil {
		return cert, nil, fmt.Errorf("read the certificate %s with %s: %w", o.certFile, o.keyFile, err)
	}
	return cert, trusted, nil
}

// makeCertificate makes a certificate and writes it, with that of its authority, where the flags say.
func (o devOptions) makeCertificate() (tls.Certificate, []byte, error) {
	cert, ca, err := apiserver.NewCertificate()
	if err != nil {
		return cert, nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return cert, nil, fmt.Errorf("encode the server key: %w", err)
	}
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), ca...)
	err = errors.Join(replaceFile("write the certificate", o.certFile, chain), replaceFile("write the server key",
		o.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	return cert, ca, err
}

// parsePool reads the certificates of a file with this text.
func parsePool(file string, text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// parseKey reads the first private key of a file with this text, in any of the forms that kube-apiserver takes.
func parseKey(file string, text []byte) (crypto.Signer, error) {
	var err error
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		signer, ok := key.(crypto.Signer)
		if err != nil || !ok {
			return nil, fmt.Errorf("read the %s in %s: %v", block.Type, file, err)
		}
		return signer, nil
	}
	return nil, fmt.Errorf("%s has no private key in PEM", file)
}

// parseUsers reads a file of tokens as kube-apiserver does: token,user,uid,"group1,group2" in each line.
func parseUsers(file string, text []byte) (map[string]apiserver.User, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out := map[string]apiserver.User{}
	for i, line := range lines {
		if len(line) < 3 || line[0] == "" || line[1] == "" {
			return nil, fmt.Errorf("%s: record %d is not token,user,uid,\"groups\"", file, i+1)
		}
		user := apiserver.User{Name: line[1]}
		if len(line) > 3 && line[3] != "" {
			user.Groups = strings.Split(line[3], ",")
		}
		out[line[0]] = user
	}
	return out, nil
}
