//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
)

// thief makes clients of the token in a kubeconfig.
func thief(t *testing.T, kubeconfig string) (client.Client, *kubernetes.Clientset) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	c, err := client.New(config, client.Options{Scheme: env.client.Scheme()})
	must(t, err)
	set, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c, set
}

// byTokens: what a thief of the tokens of Lull can do beyond what docs/security.md says.
func (s *siege) byTokens() {
	ctx := context.Background()
	const merge = types.MergePatchType
	s.attack("the controller's token ends work that runs", func(t *testing.T) {
		b := s.tenant
		b.t = t
		stolen, _ := thief(t, env.restricted)
		victim := endless(b.job("runs", nil))
		victim.Spec.Template.Spec.PriorityClassName = "urgent"
		b.submit(victim)
		b.eventually("it to run", func() bool { j := b.get("runs"); return j.Status.Active == 1 && j.Status.StartTime != nil })
		now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
		condition := func(kind string) string {
			return fmt.Sprintf(`{"type":%q,"status":"True","reason":"Stolen","message":"x","lastProbeTime":%q,"lastTransitionTime":%q}`, kind, now, now)
		}
		for _, patch := range []string{
			`{"status":{"active":0,"ready":0,"terminating":0,"failed":1,"conditions":[` + condition("FailureTarget") + `,` + condition("Failed") + `]}}`,
			`{"status":{"conditions":[` + condition("FailureTarget") + `]}}`,
			`{"status":{"active":0,"ready":0,"terminating":0,"succeeded":1,"completionTime":"` + now + `","conditions":[` + condition("SuccessCriteriaMet") + `,` + condition("Complete") + `]}}`,
			`{"status":{"conditions":[` + condition("SuccessCriteriaMet") + `]}}`,
			`{"status":{"failed":100}}`, `{"status":{"uncountedTerminatedPods":{"failed":["x"]}}}`,
		} {
			j := b.get("runs")
			if err := stolen.Status().Patch(ctx, j, client.RawPatch(merge, []byte(patch)), client.DryRunAll); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", patch, err)
			}
		}
	})
	s.attack("the controller's token changes work", func(t *testing.T) {
		b := s.tenant
		b.t = t
		stolen, _ := thief(t, env.restricted)
		b.submit(b.job("held", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
		for _, patch := range []string{
			`{"metadata":{"labels":{"x":"y"}}}`, `{"metadata":{"finalizers":["example.com/x"]}}`, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`,
			`{"metadata":{"annotations":{"x":"y"}}}`, `{"spec":{"backoffLimit":5}}`, `{"spec":{"ttlSecondsAfterFinished":0}}`, `{"spec":{"activeDeadlineSeconds":1}}`,
			`{"spec":{"template":{"metadata":{"labels":{"x":"y"}}}}}`, `{"spec":{"template":{"spec":{"nodeSelector":{"x":"y"}}}}}`,
			`{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}`,
		} {
			for _, w := range []client.SubResourceWriter{nil, stolen.Status()} {
				var err error
				j := b.get("held")
				if w == nil {
					err = stolen.Patch(ctx, j, client.RawPatch(merge, []byte(patch)))
				} else {
					err = w.Patch(ctx, j, client.RawPatch(merge, []byte(patch)))
				}
				if after := b.get("held"); !apierrors.IsForbidden(err) && (w == nil || len(after.Labels) != 1 || len(after.Finalizers) != 0 || after.Annotations["x"] != "" || len(after.OwnerReferences) != 0) {
					t.Errorf("%s: %v", patch, err)
				}
			}
		}
		made := b.job("made", nil)
		if err := stolen.Create(ctx, made); !apierrors.IsForbidden(err) {
			t.Errorf("create: %v", err)
		}
		if err := stolen.Delete(ctx, b.get("held")); !apierrors.IsForbidden(err) {
			t.Errorf("delete: %v", err)
		}
		j := b.get("held")
		j.ManagedFields = nil
		j.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
		if err := stolen.Update(ctx, j); !apierrors.IsForbidden(err) {
			t.Errorf("update: %v", err)
		}
	})
	s.attack("tokens reach further", func(t *testing.T) {
		must(t, env.client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: s.victim.ns}}))
		for account, kubeconfig := range map[string]string{"lull-controller": env.restricted, "lull-failsafe": env.failsafe, "lull-extender": env.extender, "lull-web": env.web} {
			stolen, set := thief(t, kubeconfig)
			refused := func(what string, err error) {
				t.Helper()
				if !apierrors.IsForbidden(err) {
					t.Errorf("%s: %s: %v", account, what, err)
				}
			}
			refused("a Secret of others", stolen.Get(ctx, client.ObjectKey{Namespace: s.victim.ns, Name: "theirs"}, &corev1.Secret{}))
			refused("the Secrets of Lull", stolen.List(ctx, &corev1.SecretList{}, client.InNamespace(charts.Namespace)))
			_, err := set.CoreV1().ServiceAccounts(charts.Namespace).CreateToken(ctx, "lull-failsafe", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			refused("a token", err)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: charts.Namespace}, Spec: s.tenant.job("x", nil).Spec.Template.Spec}
			refused("a Pod", stolen.Create(ctx, pod))
			refused("a binding", stolen.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}))
			for _, obj := range []client.Object{
				&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: s.victim.ns}}, &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: s.victim.zone}},
				&v1alpha1.WorkloadKind{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, &v1alpha1.ScalingProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: s.victim.ns}},
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: s.victim.ns}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.victim.ns}},
				&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lull-controller"}}, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: s.victim.ns}},
			} {
				refused(fmt.Sprintf("%T", obj), stolen.Patch(ctx, obj, client.RawPatch(merge, []byte(`{"metadata":{"labels":{"x":"y"}}}`)), client.DryRunAll))
				refused(fmt.Sprintf("deletion of %T", obj), stolen.Delete(ctx, obj, client.DryRunAll))
			}
			rules, err := set.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: charts.Namespace}}, metav1.CreateOptions{})
			must(t, err)
			for _, r := range rules.Status.ResourceRules {
				t.Logf("%s: %v %v %v %v", account, r.Verbs, r.APIGroups, r.Resources, r.ResourceNames)
			}
		}
		watchdog, _ := thief(t, env.failsafe)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "controller.lull.dev", Namespace: charts.Namespace}}
		if err := watchdog.Patch(ctx, lease, client.RawPatch(merge, []byte(`{"spec":{"holderIdentity":"x"}}`)), client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("the watchdog's token takes the lease of the controller: %v", err)
		}
		if err := watchdog.Create(ctx, s.tenant.job("made", nil), client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("the watchdog's token creates work: %v", err)
		}
	})
}
