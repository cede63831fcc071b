package admission

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
)

// world is an API server with what the chart installs.
type world struct {
	*testing.T
	client.Client
	clock  *clocktesting.FakeClock
	writes int
	before func() // is called once before the next write
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: clocktesting.NewFakeClock(start)}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kinds.DefaultNamespace, Name: SecretName}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: kinds.WebhookConfiguration}},
	).WithInterceptorFuncs(interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
		if before := w.before; before != nil {
			w.before = nil
			before()
		}
		w.writes++
		return c.Update(ctx, o, options...)
	}}).Build()
	return w
}

func (w *world) policy(namespace, name string) *v1alpha1.CarbonPolicy {
	w.Helper()
	p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.CarbonPolicySpec{Zone: "de"}}
	if err := w.Create(w.Context(), p); err != nil {
		w.Fatal(err)
	}
	return p
}

// keeper is a replica, which reads from a cache.
func (w *world) keeper(cache client.Reader, change func(*Options)) *keeper {
	o := Options{Namespace: kinds.DefaultNamespace, Kinds: []string{"Job", "Pod"}, Secret: SecretName, Certificates: CertificatesSelf}
	if change != nil {
		change(&o)
	}
	return &keeper{Options: o, live: w.Client, cache: cache, clock: w.clock, trigger: make(chan struct{}, 1)}
}

func (w *world) keep(k *keeper) *admissionregistrationv1.MutatingWebhookConfiguration {
	w.Helper()
	if err := k.keep(w.Context()); err != nil {
		w.Fatal(err)
	}
	var c admissionregistrationv1.MutatingWebhookConfiguration
	if err := w.Get(w.Context(), client.ObjectKey{Name: kinds.WebhookConfiguration}, &c); err != nil {
		w.Fatal(err)
	}
	return &c
}

// TestKeepsConfiguration: API servers ask about the namespaces with a policy, for the kinds, with the authority of the certificate that serves; and
// nothing is written without need.
func TestKeepsConfiguration(t *testing.T) {
	w := newWorld(t)
	w.policy("b", "x")
	gone := w.policy("a", "x")
	w.policy("a", "y")
	for _, never := range []string{"kube-system", kinds.DefaultNamespace} {
		w.policy(never, "x")
	}
	k := w.keeper(w.Client, nil)
	if k.ready() {
		t.Error("ready without a certificate")
	}
	c := w.keep(k)
	if got := configured(c); !slices.Equal(got, []string{"a", "b"}) || len(c.Webhooks) != 2 || !k.ready() {
		t.Fatalf("%v; %d webhooks; ready: %v", got, len(c.Webhooks), k.ready())
	}
	for _, h := range c.Webhooks {
		service := h.ClientConfig.Service
		if *h.FailurePolicy != admissionregistrationv1.Ignore || *h.TimeoutSeconds != 2 || *h.SideEffects != admissionregistrationv1.SideEffectClassNone || service.Name != ServiceName || service.Namespace != kinds.DefaultNamespace || *service.Path != Path ||
			len(h.Rules) != 1 || !slices.Equal(h.Rules[0].Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}) || len(h.MatchConditions) < 3 {
			t.Errorf("%+v", h)
		}
		for _, m := range h.MatchConditions {
			if strings.Contains(m.Expression, "params") {
				t.Errorf("%s reads parameters, which a webhook has not", m.Name)
			}
		}
		if !bytes.Contains(h.ClientConfig.CABundle, []byte("BEGIN CERTIFICATE")) {
			t.Errorf("%s", h.ClientConfig.CABundle)
		}
	}
	writes := w.writes
	w.keep(k)
	w.clock.Step(time.Hour)
	w.keep(w.keeper(w.Client, nil)) // another replica
	if w.writes != writes {
		t.Errorf("%d writes without need", w.writes-writes)
	}
	if err := w.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got := configured(w.keep(k)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("a still has a policy: %v", got)
	}
	if err := w.DeleteAllOf(t.Context(), &v1alpha1.CarbonPolicy{}, client.InNamespace("a")); err != nil {
		t.Fatal(err)
	}
	if got := configured(w.keep(k)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("a has no policy: %v", got)
	}
	if err := w.DeleteAllOf(t.Context(), &v1alpha1.CarbonPolicy{}, client.InNamespace("b")); err != nil {
		t.Fatal(err)
	}
	if c := w.keep(k); len(c.Webhooks) != 0 {
		t.Errorf("nothing is governed, and API servers ask %d webhooks", len(c.Webhooks))
	}
}

// TestStaleReplicaRemovesNoNamespace: a replica whose cache is behind takes away no namespace that another one has added, and one that loses a race reads again.
func TestStaleReplicaRemovesNoNamespace(t *testing.T) {
	w := newWorld(t)
	stale := newWorld(t) // an API server as it was
	for _, of := range []*world{w, stale} {
		of.policy("a", "x")
	}
	w.policy("b", "x")
	w.keep(w.keeper(w.Client, nil))
	if got := configured(w.keep(w.keeper(stale.Client, nil))); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v", got)
	}
	fresh := newWorld(t)
	fresh.policy("a", "x")
	var other []byte
	fresh.before = func() { // another replica is first
		k := fresh.keeper(fresh.Client, nil)
		fresh.keep(k)
		other = k.serving.Load().Certificate[0]
	}
	k := fresh.keeper(fresh.Client, nil)
	fresh.keep(k)
	if !bytes.Equal(k.serving.Load().Certificate[0], other) {
		t.Error("two replicas serve with certificates of their own")
	}
}

// TestOptionsOfTheConfiguration: with a URL, some namespaces, kinds that were removed and kinds that are not known yet.
func TestOptionsOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	w.policy("a", "x")
	w.policy("b", "x")
	options := func(o *Options) {
		o.URL, o.Namespaces, o.Kinds = "https://127.0.0.1:9443", []string{"b", "c"}, []string{"Job", "Pod", "Crunch"}
	}
	k := w.keeper(w.Client, options)
	c := w.keep(k)
	if len(c.Webhooks) != 2 || !slices.Equal(configured(c), []string{"b"}) || *c.Webhooks[0].ClientConfig.URL != "https://127.0.0.1:9443/hold" || c.Webhooks[0].ClientConfig.Service != nil {
		t.Errorf("%+v", c.Webhooks)
	}
	if err := serves(&pair{serving: *k.serving.Load()}, c.Webhooks[0].ClientConfig.CABundle, w.clock.Now()); err == nil {
		t.Error("the certificate is valid for the Service, which nobody asks")
	}
	if err := w.Create(t.Context(), &v1alpha1.WorkloadKind{ObjectMeta: metav1.ObjectMeta{Name: "crunches"}, Spec: v1alpha1.WorkloadKindSpec{Group: "x.dev", Version: "v1", Kind: "Crunch", Resource: "crunches", Hold: v1alpha1.HoldSpec{Suspend: "spec.suspend"}}}); err != nil {
		t.Fatal(err)
	}
	if c = w.keep(k); len(c.Webhooks) != 3 || len(*k.holders.Load()) != 3 {
		t.Errorf("%d webhooks with a WorkloadKind", len(c.Webhooks))
	}
	removed, err := kinds.Named([]string{"Pod"})
	if err != nil {
		t.Fatal(err)
	}
	if was, err := kube.RemoveWebhooks(t.Context(), w.Client, removed); err != nil || !was {
		t.Errorf("removed: %v, %v", was, err)
	}
	if c = w.keep(k); len(c.Webhooks) != 2 || slices.ContainsFunc(c.Webhooks, func(h admissionregistrationv1.MutatingWebhook) bool { return h.Name == "hold-pods.lull.dev" }) {
		t.Errorf("a kind that was removed is held: %d webhooks", len(c.Webhooks))
	}
	if service, err := kube.HeldAtAdmission(t.Context(), w.Client, removed[0]); err != nil || service != kube.NotServed {
		t.Errorf("%v, %v", service, err)
	}
	if _, err := kube.RemoveWebhooks(t.Context(), w.Client, nil); err != nil {
		t.Fatal(err)
	}
	if c = w.keep(k); len(c.Webhooks) != 3 {
		t.Errorf("%d webhooks when nothing is removed any more", len(c.Webhooks))
	}
	if service, err := kube.HeldAtAdmission(t.Context(), w.Client, removed[0]); err != nil || service != kube.Forbidden {
		t.Errorf("%v, %v", service, err)
	}
}

// TestGivenCertificateIsServedAndNeverWritten: a certificate that somebody else keeps serves and is published, and is never written. One that cannot serve is an error that says why.
func TestGivenCertificateIsServedAndNeverWritten(t *testing.T) {
	w := newWorld(t)
	w.policy("a", "x")
	k := w.keeper(w.Client, func(o *Options) { o.Certificates = CertificatesSecret })
	if err := k.keep(t.Context()); !errors.Is(err, errPair) || !strings.Contains(err.Error(), "tls.crt is not set") || k.ready() {
		t.Errorf("%v", err)
	}
	data, err := newPair([]string{ServiceName + "." + kinds.DefaultNamespace + ".svc"}, start)
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: kinds.DefaultNamespace, Name: SecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = data
	secret.Data["other"] = []byte("x")
	if err := w.Update(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}
	c := w.keep(k)
	version := func() string {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(&secret), &secret); err != nil {
			t.Fatal(err)
		}
		return secret.ResourceVersion
	}
	before := version()
	w.clock.Step(80 * 24 * time.Hour)
	w.keep(k)
	if !bytes.Equal(bytes.TrimSpace(c.Webhooks[0].ClientConfig.CABundle), bytes.TrimSpace(data[keyAuthority])) || version() != before {
		t.Errorf("the Secret is written, or another authority is published: %s", c.Webhooks[0].ClientConfig.CABundle)
	}
}

// TestAdmissionNamesMissingObjects: what the chart makes is not made by the program, which says what is missing.
func TestAdmissionNamesMissingObjects(t *testing.T) {
	w := newWorld(t)
	if err := w.Delete(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: kinds.WebhookConfiguration}}); err != nil {
		t.Fatal(err)
	}
	if err := w.keeper(w.Client, nil).keep(t.Context()); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "MutatingWebhookConfiguration hold.lull.dev") {
		t.Errorf("%v", err)
	}
}

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"":                             func(*Options) {},
		`--bind-address: "9443"`:       func(o *Options) { o.Address = "9443" },
		`--url: "http://a"`:            func(o *Options) { o.URL = "http://a" },
		`--url: "https://a/path"`:      func(o *Options) { o.URL = "https://a/path" },
		`--certificates: "mine"; acc`:  func(o *Options) { o.Certificates = "mine" },
		"--kinds: none; accepted":      func(o *Options) { o.Kinds = nil },
		`--namespaces: "A"; accepted:`: func(o *Options) { o.Namespaces = []string{"A"} },
	} {
		o := Options{Address: ":9443", URL: "https://a:1", Certificates: CertificatesSelf, Kinds: []string{"Job"}}
		change(&o)
		if err := o.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
