// An app that answers evacuations over plain HTTP: one handler, the standard library, no Kubernetes client.
//
// Its pod carries the annotation
//
//	evacuation.dev/responders: '[{"name":"self","http":{"port":8080,"path":"/evacuation"}}]'
//
// and the controller posts an EvacuationReview there. The reply repeats the two UIDs and holds the answer.
//
//	go run handler.go --bind 10.1.2.3 --port 8080 --answer Refuse --message "backup runs" --retry-after 60
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
)

var (
	bind       = flag.String("bind", "0.0.0.0", "the address to listen on")
	port       = flag.Int("port", 8080, "the port")
	answer     = flag.String("answer", "Accept", "Accept, Delay or Refuse")
	message    = flag.String("message", "", "why, in words")
	delay      = flag.Int("delay", 30, "for Delay, in seconds")
	retryAfter = flag.Int("retry-after", 0, "for Refuse, in seconds")
)

type object struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

type requester struct {
	Name string `json:"name"`
}

type request struct {
	Action     string      `json:"action"`
	Evacuation object      `json:"evacuation"`
	Pod        object      `json:"pod"`
	Requesters []requester `json:"requesters"`
	Rehearsal  bool        `json:"rehearsal"`
}

type response struct {
	EvacuationUID     string `json:"evacuationUid"`
	PodUID            string `json:"podUid"`
	Answer            string `json:"answer"`
	DelaySeconds      int    `json:"delaySeconds,omitempty"`
	RetryAfterSeconds int    `json:"retryAfterSeconds,omitempty"`
	Message           string `json:"message,omitempty"`
}

type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

// decide is the app's decision. A real app looks at what it is doing; this one does what its flags say.
func decide(asked *request) *response {
	reply := &response{
		EvacuationUID: asked.Evacuation.UID,
		PodUID:        asked.Pod.UID,
		Answer:        *answer,
		Message:       *message,
	}
	switch *answer {
	case "Delay":
		reply.DelaySeconds = *delay
	case "Refuse":
		reply.RetryAfterSeconds = *retryAfter
	}
	return reply
}

// handle answers a POST with an EvacuationReview.
func handle(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "post an EvacuationReview", http.StatusMethodNotAllowed)
		return
	}
	var asked review
	body := http.MaxBytesReader(w, r.Body, 1<<20)
	if err := json.NewDecoder(body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, "not an EvacuationReview", http.StatusBadRequest)
		return
	}
	var names []string
	for _, requester := range asked.Request.Requesters {
		names = append(names, requester.Name)
	}
	kind := ""
	if asked.Request.Rehearsal {
		// Nobody wants the pod to move: an app says what it would answer, and goes on working.
		kind = " (a rehearsal)"
	}
	fmt.Printf("%s by %s%s\n", asked.Request.Action, strings.Join(names, ", "), kind)
	reply := review{APIVersion: asked.APIVersion, Kind: asked.Kind}
	if asked.Request.Action != "Cancel" {
		reply.Response = decide(asked.Request)
		fmt.Printf("answering %s: %s\n", *answer, *message)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		log.Print(err)
	}
}

func main() {
	flag.Parse()
	address := net.JoinHostPort(*bind, strconv.Itoa(*port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/evacuation", handle)
	fmt.Printf("listening on %s\n", address)
	log.Fatal(http.Serve(listener, nil))
}
