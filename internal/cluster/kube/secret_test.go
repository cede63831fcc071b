package kube

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
)

// TestSecretsGoOnlyToTheirHosts: a zone author cannot have a Secret of Lull's namespace sent elsewhere. No error shows what is in it.
func TestSecretsGoOnlyToTheirHosts(t *testing.T) {
	const content = "very-secret"
	key := v1alpha1.SecretKey{Name: "key", Key: "token"}
	eia := func(endpoint v1alpha1.Endpoint) v1alpha1.GridZoneSource {
		return v1alpha1.GridZoneSource{EIA: &v1alpha1.EIASource{Endpoint: endpoint, Respondent: "CISO", KeySecret: key}}
	}
	for name, x := range map[string]struct {
		hosts   string // no annotation if empty
		source  v1alpha1.GridZoneSource
		refused string
	}{
		"a kubeconfig, to a host of the author": {"", eia("https://mine.example"), "may not be sent to mine.example"},
		"without an annotation":                 {"", eia(""), "may not be sent to api.eia.gov"},
		"the standard host":                     {"api.eia.gov", eia(""), ""},
		"one of several":                        {"web-api.tp.entsoe.eu, API.eia.gov", eia(""), ""},
		"a host that only ends like it":         {"eia.gov", eia(""), "may not be sent to api.eia.gov"},
		"a host that only begins like it":       {"api.eia.gov", eia("https://api.eia.gov.mine.example"), "may not be sent to api.eia.gov.mine.example"},
		"another port":                          {"api.eia.gov", eia("https://api.eia.gov:8443"), "may not be sent to api.eia.gov:8443"},
		"a port that is named":                  {"127.0.0.1:8089", eia("http://127.0.0.1:8089/x"), ""},
		"no host":                               {",", eia("https:///x"), "may not be sent to"},
		"electricityMaps":                       {"x", v1alpha1.GridZoneSource{ElectricityMaps: &v1alpha1.ElectricityMapsSource{TokenSecret: key}}, "may not be sent to api.electricitymaps.com"},
		"wattTime":                              {"x", v1alpha1.GridZoneSource{WattTime: &v1alpha1.WattTimeSource{PasswordSecret: key}}, "may not be sent to api.watttime.org"},
		"entsoE":                                {"x", v1alpha1.GridZoneSource{EntsoE: &v1alpha1.EntsoESource{TokenSecret: key}}, "may not be sent to web-api.tp.entsoe.eu"},
		"prometheus":                            {"x", v1alpha1.GridZoneSource{Prometheus: &v1alpha1.PrometheusSource{Endpoint: "https://mine.example", TokenSecret: &key}}, "may not be sent to mine.example"},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key", Namespace: "lull-system"}, Data: map[string][]byte{"token": []byte(content)}}
		if x.hosts != "" {
			s.Annotations = map[string]string{v1alpha1.AnnotationProviderHosts: x.hosts}
		}
		z := &ZoneReader{Reader: fake.NewFakeClient(s), Namespace: "lull-system"}
		cfg, err := z.Config(context.Background(), &v1alpha1.GridZone{Spec: v1alpha1.GridZoneSpec{Zone: "DE", Source: x.source}})
		switch {
		case x.refused == "" && (err != nil || cfg.Provider == nil):
			t.Errorf("%s: refused: %v", name, err)
		case x.refused != "" && (cfg.Provider != nil || !errors.Is(err, source.ErrSource) || !strings.Contains(err.Error(), x.refused)):
			t.Errorf("%s: provider %T, error %v; want none, and an error with %q", name, cfg.Provider, err, x.refused)
		case err != nil && strings.Contains(err.Error(), content):
			t.Errorf("%s: the error shows the Secret: %v", name, err)
		}
	}
}
