package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pki is the certificates of one lab; they live a day, like the lab.
type pki struct {
	caPEM, adminCert, adminKey []byte
}

const certificateLife = 24 * time.Hour

// certificates are those of the lab: those of an earlier lab in its folder if its data are kept, else new ones.
func (o Options) certificates() (pki, error) {
	if !o.KeepData {
		return o.writePKI()
	}
	var out pki
	for name, text := range map[string]*[]byte{"ca.crt": &out.caPEM, "admin.crt": &out.adminCert, "admin.key": &out.adminKey} {
		var err error
		if *text, err = os.ReadFile(o.path("pki", name)); os.IsNotExist(err) {
			return o.writePKI() // there was no lab before
		} else if err != nil {
			return pki{}, err
		}
	}
	return out, nil
}

// writePKI makes a certificate authority, the API server's serving certificate,
// the administrator's client certificate and the service account key, in dir/pki.
func (o Options) writePKI() (pki, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pki{}, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lull-lab"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER, err := sign(ca, ca, caKey.Public(), caKey)
	if err != nil {
		return pki{}, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(nodeIP), net.ParseIP(serviceIP)}, DNSNames: []string{"localhost", "kubernetes.default.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	admin := &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "lull-lab-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	out := pki{caPEM: certPEM(caDER)}
	serverCert, serverKey, err := issue(server, ca, caKey)
	if err != nil {
		return pki{}, err
	}
	if out.adminCert, out.adminKey, err = issue(admin, ca, caKey); err != nil {
		return pki{}, err
	}
	serviceAccount, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return pki{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(serviceAccount.Public())
	if err != nil {
		return pki{}, err
	}
	files := map[string][]byte{
		"ca.crt": out.caPEM, "server.crt": serverCert, "server.key": serverKey, "admin.crt": out.adminCert, "admin.key": out.adminKey,
		"sa.key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(serviceAccount)}),
		"sa.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	}
	for name, text := range files {
		if err := os.WriteFile(o.path("pki", name), text, 0o600); err != nil {
			return pki{}, err
		}
	}
	return out, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = time.Now().Add(certificateLife)
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}

func issue(template, ca *x509.Certificate, caKey crypto.Signer) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := sign(template, ca, private.Public(), caKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return certPEM(der), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// writeKubeconfig writes the administrator's kubeconfig with all data embedded.
func (o Options) writeKubeconfig(p pki, server string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: p.caPEM}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: p.adminCert, ClientKeyData: p.adminKey}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "admin"}
	config.CurrentContext = "lab"
	return clientcmd.WriteToFile(*config, Kubeconfig(o.Dir))
}
