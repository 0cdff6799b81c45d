#include "env.h"

namespace {

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  // Per environment, not static: worker threads each get their own handles, operators and buffer.
  env.SetInstanceData<door::Environment>(new door::Environment());
  door::registerDoor(env, exports);
  door::registerTensors(env, exports);
  door::registerAutograd(env, exports);
  door::registerRuntime(env, exports);
  door::registerMapping(env, exports);
  door::registerDistributed(env, exports);
  door::registerCuda(env, exports);
  door::registerHostView(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(verlet_torch, initialize)
