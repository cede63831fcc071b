package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/mutate"
)

// keepEvery is how often Secret and configuration are read, if nothing calls for it earlier.
const keepEvery = 10 * time.Second

// keeper keeps the certificate and the configuration of the webhooks as they have to be. Each replica has one. They need no leader: what
// they write depends on what the API server has, and one that has read something older is refused.
type keeper struct {
	Options
	live  client.Client // reads and writes at the API server
	cache client.Reader // knows CarbonPolicies and WorkloadKinds
	clock clock.Clock

	serving atomic.Pointer[tls.Certificate]
	holders atomic.Pointer[holders]
	refused string // the last problem of a kind that was logged
	trigger chan struct{}
}

// wake has the keeper act soon.
func (k *keeper) wake() {
	select {
	case k.trigger <- struct{}{}:
	default:
	}
}

// certificate is a tls.Config's GetCertificate.
func (k *keeper) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate yet")
}

// ready reports whether there is a certificate and the kinds are known.
func (k *keeper) ready() bool { return k.serving.Load() != nil && k.holders.Load() != nil }

// run keeps all until ctx ends.
func (k *keeper) run(ctx context.Context) {
	for {
		if err := k.keep(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Failed to update the configuration of the webhooks")
		}
		select {
		case <-ctx.Done():
			return
		case <-k.trigger:
		case <-k.clock.After(keepEvery):
		}
	}
}

// keep acts once. If another replica has written at the same time, it acts again.
func (k *keeper) keep(ctx context.Context) error {
	const most = 5
	for i := 0; ; i++ {
		err := k.once(ctx)
		if !apierrors.IsConflict(err) || i == most {
			return err
		}
	}
}

func (k *keeper) once(ctx context.Context) error {
	of, err := k.kinds(ctx)
	if err != nil {
		return err
	}
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	if err := k.live.Get(ctx, client.ObjectKey{Name: kinds.WebhookConfiguration}, &configuration); err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", kinds.WebhookConfiguration, err)
	}
	authorities, err := k.keepCertificate(ctx, &configuration)
	if err != nil {
		return err
	}
	return k.keepConfiguration(ctx, &configuration, of, authorities)
}

// kinds returns the kinds that are governed, and has the handler decide about them. Names of kinds that nobody has taught Lull yet are left out.
func (k *keeper) kinds(ctx context.Context) ([]*kinds.Kind, error) {
	all, err := kube.Kinds(ctx, k.cache)
	if all == nil {
		return nil, err
	}
	problems := []error{err} // of a WorkloadKind that is refused
	of, by := []*kinds.Kind{}, holders{}
	for _, kind := range all {
		if !slices.Contains(k.Kinds, kind.Name) {
			continue
		}
		h, err := mutate.NewHolder(kind, k.Namespace)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		of = append(of, kind)
		by[schema.GroupResource{Group: kind.Spec.Group, Resource: kind.Spec.Resource}] = holder{h, kind}
	}
	if err := errors.Join(problems...); err != nil && err.Error() != k.refused {
		k.refused = err.Error()
		log.FromContext(ctx).Error(err, "Failed to hold a kind")
	}
	k.holders.Store(&by)
	return of, nil
}

// keepCertificate rotates the certificate, if it is Lull's own, and serves with what the Secret has. It returns the authorities.
func (k *keeper) keepCertificate(ctx context.Context, configuration *admissionregistrationv1.MutatingWebhookConfiguration) ([]byte, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: k.Namespace, Name: k.Secret}
	if err := k.live.Get(ctx, key, &secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	data, serves := secret.Data, (*pair)(nil)
	var err error
	if k.Certificates == CertificatesSecret {
		data = maps.Clone(data)
		maps.DeleteFunc(data, func(name string, _ []byte) bool { return name != keyCert && name != keyPrivate && name != keyAuthority })
		serves, err = readPair(data, "", k.hosts(), k.clock.Now())
	} else {
		trusted := func(authority []byte) bool {
			return !slices.ContainsFunc(configuration.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
				return !bytes.Contains(w.ClientConfig.CABundle, bytes.TrimSpace(authority))
			})
		}
		data, serves, err = rotate(secret.Data, k.hosts(), k.clock.Now(), trusted)
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", key, err)
	}
	if !maps.EqualFunc(data, secret.Data, bytes.Equal) && k.Certificates != CertificatesSecret {
		secret.Data = data
		if err := k.live.Update(ctx, &secret); err != nil {
			return nil, fmt.Errorf("write Secret %s: %w", key, err)
		}
		log.FromContext(ctx).Info("Wrote a certificate", "secret", key.String(), "end", serves.end.Format(time.RFC3339))
	}
	k.serving.Store(&serves.serving)
	metrics.AdmissionCertificateEnd.Set(float64(serves.end.Unix()))
	return bundle(data), nil
}

// keepConfiguration has API servers ask about objects of the kinds, in namespaces that have a CarbonPolicy.
func (k *keeper) keepConfiguration(ctx context.Context, configuration *admissionregistrationv1.MutatingWebhookConfiguration, of []*kinds.Kind, authorities []byte) error {
	namespaces, err := k.governed(ctx, configuration)
	if err != nil {
		return err
	}
	config := admissionregistrationv1.WebhookClientConfig{CABundle: authorities}
	if path := Path; k.URL != "" {
		url := strings.TrimSuffix(k.URL, "/") + path
		config.URL = &url
	} else {
		port := int32(443)
		config.Service = &admissionregistrationv1.ServiceReference{Namespace: k.Namespace, Name: ServiceName, Path: &path, Port: &port}
	}
	var webhooks []admissionregistrationv1.MutatingWebhook
	if len(namespaces) > 0 {
		removed := strings.Split(configuration.Annotations[kinds.AnnotationRemovedKinds], ",")
		for _, kind := range of {
			if slices.Contains(removed, kind.Name) {
				continue
			}
			w, err := kind.Webhook(k.Namespace, config, namespaces)
			if err != nil {
				return err
			}
			webhooks = append(webhooks, *w)
		}
	}
	if k.Nominations {
		w, err := kinds.NominationsWebhook(k.Namespace, config, k.Namespaces)
		if err != nil {
			return err
		}
		webhooks = append(webhooks, *w)
	}
	if len(webhooks) == 0 && len(configuration.Webhooks) == 0 || reflect.DeepEqual(webhooks, configuration.Webhooks) {
		return nil
	}
	configuration.Webhooks = webhooks
	if err := k.live.Update(ctx, configuration); err != nil {
		return fmt.Errorf("write MutatingWebhookConfiguration %s: %w", kinds.WebhookConfiguration, err)
	}
	log.FromContext(ctx).Info("Configured the webhooks", "webhooks", len(webhooks), "namespaces", len(namespaces))
	return nil
}

// governed returns the namespaces that have a CarbonPolicy, sorted, without those that API servers must not ask about. A namespace that has been
// configured stays until the API server itself says that it has none: the cache may be behind that of another replica.
func (k *keeper) governed(ctx context.Context, configuration *admissionregistrationv1.MutatingWebhookConfiguration) ([]string, error) {
	list := carbonPolicies()
	if err := k.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CarbonPolicies: %w", err)
	}
	has := map[string]bool{}
	for i := range list.Items {
		has[list.Items[i].GetNamespace()] = true
	}
	for _, name := range configured(configuration) {
		if has[name] || !k.Namespaces.Has(name) {
			continue
		}
		now := carbonPolicies()
		if err := k.live.List(ctx, now, client.InNamespace(name), client.Limit(1)); err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("list CarbonPolicies of %s: %w", name, err)
		}
		has[name] = len(now.Items) > 0
	}
	maps.DeleteFunc(has, func(name string, has bool) bool {
		return !has || !k.Namespaces.Has(name) || !kinds.Asked(k.Namespace, name)
	})
	return slices.Sorted(maps.Keys(has)), nil
}

// configured returns the namespaces that API servers ask about for what is created.
func configured(configuration *admissionregistrationv1.MutatingWebhookConfiguration) (out []string) {
	for i := range configuration.Webhooks {
		if s := configuration.Webhooks[i].NamespaceSelector; s != nil && configuration.Webhooks[i].Name != kinds.NominationsName {
			for _, e := range s.MatchExpressions {
				out = append(out, e.Values...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var policyGVK = v1alpha1.GroupVersion.WithKind("CarbonPolicy")
