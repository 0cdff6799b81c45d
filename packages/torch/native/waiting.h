// Waits that may take long run on one of libuv's worker threads and settle a promise; the event loop goes on meanwhile.
#pragma once
#include <functional>

#include "env.h"

namespace door {

using Job = std::function<void()>;
using Answer = std::function<Napi::Value(Napi::Env)>;

inline Napi::Value nothing(Napi::Env env) { return env.Undefined(); }

class Waiting : public Napi::AsyncWorker {
 public:
  Waiting(Napi::Env env, const char* name, Job job, Answer answer)
      : Napi::AsyncWorker(env, name),
        name_(name),
        job_(std::move(job)),
        answer_(std::move(answer)),
        deferred_(Napi::Promise::Deferred::New(env)) {}

  Napi::Promise promise() const { return deferred_.Promise(); }

  void Execute() override {
    try {
      job_();
    } catch (const c10::Error& error) {
      SetError(error.what_without_backtrace());
    } catch (const std::exception& error) {
      SetError(error.what());
    }
    // Whatever the job holds (tensors, connections) is let go here, not on the JavaScript thread.
    job_ = nullptr;
  }

  void OnOK() override { deferred_.Resolve(answer_(Env())); }

  void OnError(const Napi::Error& error) override {
    deferred_.Reject(toError(Env(), name_, std::runtime_error(error.Message())).Value());
  }

 private:
  const char* name_;
  Job job_;
  Answer answer_;
  Napi::Promise::Deferred deferred_;
};

// Runs the job here and now, or on a worker thread behind a promise.
inline Napi::Value runJob(Napi::Env env, const char* name, bool async, Job job, Answer answer = nothing) {
  if (!async) {
    job();
    return answer(env);
  }
  auto* waiting = new Waiting(env, name, std::move(job), std::move(answer));
  auto promise = waiting->promise();
  waiting->Queue();
  return promise;
}

}  // namespace door
