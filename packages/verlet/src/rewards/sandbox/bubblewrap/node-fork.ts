import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * A library that lets a warm Node fork, loaded into the Node inside the box and nowhere else. Node starts in 40 ms of processor
 * time and forks in one. What stands in the way of a fork, and what is done about it here:
 * - V8 marks its heap as not to be inherited: MADV_DOFORK takes that back;
 * - the child has none of the threads: Node runs with --single-threaded, so that V8 needs none, and libuv is told
 *   (uv_loop_fork; its thread pool starts anew by itself);
 * - at its end Node waits for threads that are not there: joining one, and destroying what it waited on, is a success at once.
 *
 * The parent never runs a program. It cannot be traced or looked into (not dumpable) and ignores every signal it can, above all
 * SIGUSR1, at which Node would open a debugger. It speaks to the zygote in packets: R = ready; F and five descriptors = fork,
 * answered with the pid; W and a pid = wait for it, answered with the status.
 */
const source = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <errno.h>
#include <unistd.h>

typedef void *napi_env, *napi_value, *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
extern int napi_create_function(napi_env, const char *, size_t, napi_callback, void *, napi_value *);
extern int napi_set_named_property(napi_env, napi_value, const char *, napi_value);
extern int napi_create_int32(napi_env, int32_t, napi_value *);
extern int napi_get_cb_info(napi_env, napi_callback_info, size_t *, napi_value *, napi_value *, void **);
extern int napi_get_value_int32(napi_env, napi_value, int32_t *);
extern int napi_get_uv_event_loop(napi_env, void **);
extern int uv_loop_fork(void *);
extern void uv_update_time(void *);

enum { SOCKET = 5, HANDED = 5, FIRST_FREE = 10, MOST_THREADS = 256, SIGNALS = 65 };

static pthread_t before_fork[MOST_THREADS];
static int threads, is_forked;

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *with) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!real) real = dlsym(RTLD_NEXT, "pthread_create");
  int failed = real(thread, how, start, with);
  if (!failed && !is_forked && threads < MOST_THREADS) before_fork[threads++] = *thread;
  return failed;
}
int pthread_join(pthread_t thread, void **result) {
  static int (*real)(pthread_t, void **);
  if (!real) real = dlsym(RTLD_NEXT, "pthread_join");
  if (is_forked)
    for (int at = 0; at < threads; at++)
      if (pthread_equal(before_fork[at], thread)) return 0;
  return real(thread, result);
}
int pthread_cond_destroy(pthread_cond_t *condition) {
  static int (*real)(pthread_cond_t *);
  if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_destroy");
  return is_forked ? 0 : real(condition);
}
int pthread_mutex_destroy(pthread_mutex_t *mutex) {
  static int (*real)(pthread_mutex_t *);
  if (!real) real = dlsym(RTLD_NEXT, "pthread_mutex_destroy");
  return is_forked ? 0 : real(mutex);
}

static void inherit_memory(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[1024];
  unsigned long from, to;
  if (!maps) _exit(72);
  while (fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx", &from, &to) == 2) madvise((void *)from, to - from, MADV_DOFORK);
  fclose(maps);
}

static napi_value number(napi_env env, int value) {
  napi_value result;
  napi_create_int32(env, value, &result);
  return result;
}

/* Returns in forked children only, with their pid. */
static napi_value serve(napi_env env, napi_callback_info info) {
  struct sigaction kept[SIGNALS], ignored = {.sa_handler = SIG_IGN};
  void *loop;
  if (napi_get_uv_event_loop(env, &loop)) _exit(71);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  for (int each = 1; each < SIGNALS; each++)
    if (!sigaction(each, NULL, &kept[each]) && each != SIGCHLD) sigaction(each, &ignored, NULL);
  if (send(SOCKET, "R", 1, 0) != 1) _exit(0);
  for (;;) {
    struct { char what; int32_t pid; } __attribute__((packed)) request = {0};
    union { char bytes[CMSG_SPACE(sizeof(int) * HANDED)]; struct cmsghdr align; } control;
    struct iovec part = {&request, sizeof request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t count = recvmsg(SOCKET, &message, MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(0);
    int32_t answer = -1;
    if (request.what == 'W') {
      int status = 0;
      while (waitpid(request.pid, &status, 0) < 0 && errno == EINTR) {}
      answer = status;
    } else {
      int handed[HANDED];
      struct cmsghdr *header = CMSG_FIRSTHDR(&message);
      if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof handed)) _exit(73);
      memcpy(handed, CMSG_DATA(header), sizeof handed);
      inherit_memory();
      answer = fork();
      if (answer == 0) {
        is_forked = 1;
        setsid();
        for (int at = 0; at < HANDED; at++) dup2(handed[at], at);
        for (int at = HANDED; at < FIRST_FREE; at++) close(at);
        for (int at = 0; at < HANDED; at++) close(handed[at]);
        for (int each = 1; each < SIGNALS; each++)
          if (each != SIGKILL && each != SIGSTOP) sigaction(each, &kept[each], NULL);
        if (uv_loop_fork(loop)) _exit(74);
        uv_update_time(loop);
        return number(env, getpid());
      }
      for (int at = 0; at < HANDED; at++) close(handed[at]);
    }
    if (send(SOCKET, &answer, sizeof answer, 0) != sizeof answer) _exit(0);
  }
}

/* Ends the process without taking Node apart first, which would cost as much as the fork. */
static napi_value leave(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value code;
  int32_t value = 0;
  if (!napi_get_cb_info(env, info, &count, &code, NULL, NULL) && count > 0) napi_get_value_int32(env, code, &value);
  _exit(value);
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function;
  napi_create_function(env, "serve", 5, serve, NULL, &function);
  napi_set_named_property(env, exports, "serve", function);
  napi_create_function(env, "leave", 5, leave, NULL, &function);
  napi_set_named_property(env, exports, "leave", function);
  return exports;
}
`;

/** The compiled library, from the per-user cache or compiled now (a tenth of a second). Without a C compiler: the reason. */
export function nodeForkLibrary(): { library: Buffer } | { reason: string } {
  const key = createHash('sha256').update(`${process.arch}\n${source}`).digest('hex').slice(0, 20);
  const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'verlet', 'sandbox');
  const file = join(folder, `node-fork-${key}.so`);
  try {
    return { library: readFileSync(file) };
  } catch {
    // Not compiled yet.
  }
  const fresh = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const args = ['-x', 'c', '-O2', '-shared', '-fPIC', '-o', fresh, '-', '-ldl', '-lpthread'];
    const compiler = spawnSync(process.env.CC || 'cc', args, { input: source, encoding: 'utf8', timeout: 60_000 });
    if (compiler.error) return { reason: `no C compiler (${compiler.error.message})` };
    if (compiler.status !== 0) return { reason: `the C compiler failed: ${compiler.stderr.trim().slice(0, 300)}` };
    const library = readFileSync(fresh);
    renameSync(fresh, file);
    return { library };
  } catch (error) {
    return { reason: error instanceof Error ? error.message : String(error) };
  } finally {
    rmSync(fresh, { force: true });
  }
}
