// An app that answers evacuations of its own pod by watching: the standard library, no Kubernetes client.
//
// Its pod carries the annotation
//
//	evacuation.dev/responders: '[{"name":"self"}]'
//
// and needs no rights. While the busy file exists, the app delays; then it accepts.
//
//	go run watcher.go --busy-file /tmp/busy --delay 30
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// The server ends a watch after this time. A connection that is silent for longer is dead.
	watchSeconds = 30
	maxPause     = 15 * time.Second
)

var (
	busyFile = flag.String("busy-file", "/tmp/busy", "the app is busy while this file exists")
	delay    = flag.Int("delay", 30, "seconds of each delay")
)

type metadata struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

type responder struct {
	Name                     string `json:"name"`
	State                    string `json:"state"`
	Answer                   string `json:"answer"`
	CancellationAcknowledged bool   `json:"cancellationAcknowledged"`
}

type evacuation struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Target struct {
			Pod struct {
				UID string `json:"uid"`
			} `json:"pod"`
		} `json:"target"`
		Requesters []struct {
			Name string `json:"name"`
		} `json:"requesters"`
		Rehearsal bool `json:"rehearsal"`
	} `json:"spec"`
	Status struct {
		Responders []responder `json:"responders"`
	} `json:"status"`
}

type response struct {
	EvacuationUID           string `json:"evacuationUid"`
	PodUID                  string `json:"podUid"`
	Answer                  string `json:"answer,omitempty"`
	DelaySeconds            int    `json:"delaySeconds,omitempty"`
	Message                 string `json:"message,omitempty"`
	AcknowledgeCancellation bool   `json:"acknowledgeCancellation,omitempty"`
}

// failed is a reply that is no success.
type failed struct {
	code int
	body string
}

func (f failed) Error() string { return fmt.Sprintf("%d %.4096s", f.code, f.body) }

// isFinal tells whether the server has rejected an answer to the evacuation of that name. A 404 or 409 that
// gives no details says nothing about it.
func (f failed) isFinal(name string) bool {
	var status struct {
		Details struct {
			Name   string            `json:"name"`
			Causes []json.RawMessage `json:"causes"`
		} `json:"details"`
	}
	switch f.code {
	case 400, 403, 422:
		return true
	case 404:
		return json.Unmarshal([]byte(f.body), &status) == nil && status.Details.Name == name
	case 409:
		return json.Unmarshal([]byte(f.body), &status) == nil && len(status.Details.Causes) > 0
	}
	return false
}

// file returns the content of a file that the kubelet mounts into the pod.
func file(name string) (string, error) {
	folder := os.Getenv("FOLDER")
	if folder == "" {
		folder = "/var/run/secrets/kubernetes.io/serviceaccount"
	}
	content, err := os.ReadFile(filepath.Join(folder, name))
	return strings.TrimSpace(string(content)), err
}

// request returns the body of the reply. The kubelet replaces the files, so each request reads them again.
func request(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	ca, err := file("ca.crt")
	if err != nil {
		return nil, err
	}
	token, err := file("token")
	if err != nil {
		return nil, err
	}
	namespace, err := file("namespace")
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	url := "https://" + host + "/apis/evacuation.dev/v1alpha1/namespaces/" + namespace + "/selfevacuations" + path
	asked, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	asked.Header.Set("Authorization", "Bearer "+token)
	asked.Header.Set("Content-Type", "application/json")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 2 * watchSeconds * time.Second}
	reply, err := client.Do(asked)
	if err != nil {
		return nil, err
	}
	if reply.StatusCode >= 300 {
		defer reply.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(reply.Body, 65536))
		return nil, failed{reply.StatusCode, string(said)}
	}
	return reply.Body, nil
}

// get reads a whole reply.
func get(ctx context.Context, method, path string, body, into any) error {
	reply, err := request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer reply.Close()
	return json.NewDecoder(reply).Decode(into)
}

// answer posts an answer until the server has taken or rejected it, and returns the granted seconds.
func answer(ctx context.Context, to evacuation, spec response) (int, bool) {
	spec.EvacuationUID, spec.PodUID = to.Metadata.UID, to.Spec.Target.Pod.UID
	body := map[string]any{"apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationResponse", "spec": spec}
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		var reply struct {
			Status struct {
				GrantedSeconds int `json:"grantedSeconds"`
			} `json:"status"`
		}
		// The watch can show what the answer led to before the reply to it arrives.
		err := get(context.WithoutCancel(ctx), http.MethodPost, "/"+to.Metadata.Name+"/respond", body, &reply)
		if err == nil {
			return reply.Status.GrantedSeconds, true
		}
		fmt.Println("not answered:", err)
		var rejected failed
		if errors.As(err, &rejected) && rejected.isFinal(to.Metadata.Name) {
			return 0, false
		}
		wait(ctx, pause)
	}
	return 0, false
}

func wait(ctx context.Context, time_ time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time_):
	}
}

func busy() bool {
	_, err := os.Stat(*busyFile)
	return err == nil
}

// work delays while the app is busy, then accepts.
func work(ctx context.Context, question evacuation) {
	var names []string
	for _, requester := range question.Spec.Requesters {
		names = append(names, requester.Name)
	}
	kind := ""
	if question.Spec.Rehearsal {
		// Nobody wants the pod to move: an app says what it would answer, and goes on working.
		kind = " (a rehearsal)"
	}
	fmt.Printf("asked by %s%s\n", strings.Join(names, ", "), kind)
	for busy() && ctx.Err() == nil {
		granted, ok := answer(ctx, question, response{Answer: "Delay", DelaySeconds: *delay, Message: "finishing a job"})
		if !ok {
			// A renewal that was rejected changes nothing, and the work goes on.
			granted = *delay
		}
		end := time.Now().Add(time.Duration(granted) * time.Second * 2 / 3)
		for busy() && time.Now().Before(end) && ctx.Err() == nil {
			wait(ctx, time.Second/2)
		}
	}
	if _, ok := answer(ctx, question, response{Answer: "Accept"}); ok {
		fmt.Println("accepted")
	}
}

// app has the questions that are being worked on, by the UID of the Evacuation.
type app map[string]context.CancelFunc

// look begins to work when it is the pod's turn, and stops when that ends.
func (a app) look(seen evacuation) {
	var mine responder
	for _, known := range seen.Status.Responders {
		if known.Name == "self" {
			mine = known
		}
	}
	uid := seen.Metadata.UID
	if mine.State == "Active" {
		if _, known := a[uid]; !known && mine.Answer != "Accept" {
			ctx, stop := context.WithCancel(context.Background())
			a[uid] = stop
			go work(ctx, seen)
		}
		return
	}
	a.forget(uid)
	if mine.State == "Canceled" && !mine.CancellationAcknowledged {
		fmt.Println("canceled:", seen.Metadata.Name)
		go answer(context.Background(), seen, response{AcknowledgeCancellation: true})
	}
}

func (a app) forget(uid string) {
	if stop, known := a[uid]; known {
		stop()
		delete(a, uid)
	}
}

// list looks at all Evacuations of the pod, and returns the version from which to watch.
func (a app) list() (string, error) {
	var found struct {
		Metadata metadata     `json:"metadata"`
		Items    []evacuation `json:"items"`
	}
	if err := get(context.Background(), http.MethodGet, "", nil, &found); err != nil {
		return "", err
	}
	there := map[string]bool{}
	for _, item := range found.Items {
		there[item.Metadata.UID] = true
		a.look(item)
	}
	for uid := range a {
		if !there[uid] {
			a.forget(uid)
		}
	}
	return found.Metadata.ResourceVersion, nil
}

// watch follows the changes from a version until the watch ends, and keeps the version up to date.
func (a app) watch(version *string) error {
	query := fmt.Sprintf("?watch=true&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%d", *version, watchSeconds)
	reply, err := request(context.Background(), http.MethodGet, query, nil)
	if err != nil {
		return err
	}
	defer reply.Close()
	for events := json.NewDecoder(reply); ; {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if event.Type == "ERROR" {
			var status struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			}
			if err := json.Unmarshal(event.Object, &status); err != nil {
				return err
			}
			return failed{status.Code, status.Message}
		}
		var seen evacuation
		if err := json.Unmarshal(event.Object, &seen); err != nil {
			return err
		}
		*version = seen.Metadata.ResourceVersion
		switch event.Type {
		case "DELETED":
			a.forget(seen.Metadata.UID)
		case "ADDED", "MODIFIED":
			a.look(seen)
		}
	}
}

func main() {
	flag.Parse()
	a, version, pause := app{}, "", time.Second
	// A watch goes on where the last one ended.
	for {
		var err error
		if version == "" {
			version, err = a.list()
		}
		if err == nil {
			err = a.watch(&version)
		}
		var rejected failed
		if err == nil {
			pause = time.Second
		} else {
			fmt.Println("the watch failed:", err)
			// The version is too old: only a new list shows what is open.
			if errors.As(err, &rejected) && rejected.code == http.StatusGone {
				version = ""
			}
		}
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
}
