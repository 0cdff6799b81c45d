#include "env.h"
namespace door {
void registerCuda(Napi::Env, Napi::Object) {}
}  // namespace door
