// process.env of a worker thread is a copy that native code never sees, and libtorch reads its settings with getenv.
// This addon links nothing, so it can be loaded before libtorch, on any thread.
#include <node_api.h>
#include <stdlib.h>

static napi_value set_environment(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2];
  char name[256];
  char value[4096];
  size_t name_length = 0;
  size_t value_length = 0;
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
      napi_get_value_string_utf8(env, arguments[0], name, sizeof name, &name_length) != napi_ok ||
      napi_get_value_string_utf8(env, arguments[1], value, sizeof value, &value_length) != napi_ok ||
      name_length + 1 >= sizeof name || value_length + 1 >= sizeof value) {
    napi_throw_type_error(env, NULL, "setEnvironment(name, value) takes two strings, at most 254 and 4094 bytes long");
    return NULL;
  }
  if (setenv(name, value, 1) != 0) napi_throw_error(env, NULL, "setenv refused the name");
  return NULL;
}

static napi_value get_environment(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument;
  char name[256];
  size_t name_length = 0;
  if (napi_get_cb_info(env, info, &count, &argument, NULL, NULL) != napi_ok || count < 1 ||
      napi_get_value_string_utf8(env, argument, name, sizeof name, &name_length) != napi_ok) {
    napi_throw_type_error(env, NULL, "getEnvironment(name) takes a string");
    return NULL;
  }
  const char* value = getenv(name);
  napi_value result;
  if (value == NULL) {
    napi_get_undefined(env, &result);
  } else {
    napi_create_string_utf8(env, value, NAPI_AUTO_LENGTH, &result);
  }
  return result;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "setEnvironment", NAPI_AUTO_LENGTH, set_environment, NULL, &function);
  napi_set_named_property(env, exports, "setEnvironment", function);
  napi_create_function(env, "getEnvironment", NAPI_AUTO_LENGTH, get_environment, NULL, &function);
  napi_set_named_property(env, exports, "getEnvironment", function);
  return exports;
}
