// Makes calls of the durable writer fail, fall short, or be the last thing the process does. For
// LD_PRELOAD. Affects only the calls named here, on files below FAULT_FOLDER.
//
//   FAULT_CALL   open, write, read, fsync, close, rename, flock, thread (pthread_create), connect,
//                malloc, bucket (half of a large message has been sent), or a point of
//                fault_point()
//   FAULT_RANK   if set, only the process with this BELLOWS_RANK is affected
//   FAULT_NTH    index of the call to affect, from 1
//   FAULT_MODE   once, persist (that call and all later ones), short (half a write), damage (a
//                flipped bit in a write), kill, stop (continues after SIGCONT), slow (that call and
//                all later ones take FAULT_MS milliseconds) or hang
//   FAULT_ERRNO  errno of the failing call
//   FAULT_LOG    file that receives a line for every call, and "hit" for every fault
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(name)*)dlsym(RTLD_NEXT, #name))

static const char *folder = "", *target = "", *mode = "";
static int nth, error, seen, log_file = -1;
static char ours[1024];  // by descriptor: opened below the folder

static const char* setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

__attribute__((constructor)) static void configure(void) {
  folder = setting("FAULT_FOLDER");
  target = strcmp(setting("FAULT_RANK"), setting("BELLOWS_RANK")) && *setting("FAULT_RANK")
               ? ""
               : setting("FAULT_CALL");
  mode = setting("FAULT_MODE");
  nth = atoi(setting("FAULT_NTH"));
  error = atoi(setting("FAULT_ERRNO"));
  log_file = (int)syscall(SYS_openat, AT_FDCWD, setting("FAULT_LOG"),
                          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void note(const char* line) {
  char text[64];
  const int length = snprintf(text, sizeof text, "%s\n", line);
  if (log_file >= 0) syscall(SYS_write, log_file, text, length);
}

static int is_ours(int fd) { return fd >= 0 && fd < (int)sizeof ours && ours[fd]; }
static int is_folder(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
}

// Returns whether this call must fail; if so, errno is set.
static int fails(const char* call, const char* line) {
  note(line);
  if (strcmp(call, target)) return 0;
  const int n = ++seen;
  if (n >= nth && !strcmp(mode, "slow")) return usleep(1000 * atoi(setting("FAULT_MS")));
  if (n != nth && !(n > nth && !strcmp(mode, "persist"))) return 0;
  note("hit");
  if (!strcmp(mode, "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(mode, "stop")) return raise(SIGSTOP);
  while (!strcmp(mode, "hang")) pause();
  errno = error;
  return 1;
}

void fault_point(const char* name) { fails(name, name); }

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t permissions = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  const int below = *folder && !strncmp(path, folder, strlen(folder));
  if (below && fails("open", flags & O_CREAT ? "create" : "open")) return -1;
  const int fd = REAL(open)(path, flags, permissions);
  if (fd >= 0 && fd < (int)sizeof ours) ours[fd] = (char)below;
  return fd;
}

ssize_t write(int fd, const void* bytes, size_t n) {
  if (!is_ours(fd) || !fails("write", "write")) return REAL(write)(fd, bytes, n);
  if (!strcmp(mode, "short") && n > 1) return REAL(write)(fd, bytes, n / 2);
  if (!strcmp(mode, "damage")) {
    const char flipped = *(const char*)bytes ^ 1;
    const ssize_t first = REAL(write)(fd, &flipped, 1);
    return n == 1 ? first : 1 + REAL(write)(fd, (const char*)bytes + 1, n - 1);
  }
  return -1;
}

ssize_t pread(int fd, void* bytes, size_t n, off_t at) {
  return is_ours(fd) && fails("read", "read") ? -1 : REAL(pread)(fd, bytes, n, at);
}

int fsync(int fd) {
  const char* line = is_folder(fd) ? "fsync folder" : "fsync file";
  return is_ours(fd) && fails("fsync", line) ? -1 : REAL(fsync)(fd);
}

void* __libc_malloc(size_t bytes);
void* malloc(size_t bytes) {
  return !strcmp(target, "malloc") && fails("malloc", "malloc") ? NULL : __libc_malloc(bytes);
}

// pthread_create returns its error and leaves errno alone.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  if (fails("thread", "thread")) return error;
  return REAL(pthread_create)(thread, attributes, run, argument);
}

int flock(int fd, int operation) {
  return is_ours(fd) && fails("flock", "flock") ? -1 : REAL(flock)(fd, operation);
}

int connect(int fd, const struct sockaddr* address, socklen_t size) {
  return fails("connect", "connect") ? -1 : REAL(connect)(fd, address, size);
}

// Only for a bucket: its second buffer, after Gloo's header, is large.
ssize_t writev(int fd, const struct iovec* buffers, int count) {
  struct iovec half[2];
  if (strcmp(target, "bucket") || count != 2 || buffers[1].iov_len < 1024)
    return REAL(writev)(fd, buffers, count);
  memcpy(half, buffers, sizeof half);
  half[1].iov_len /= 2;
  const ssize_t sent = REAL(writev)(fd, half, 2);
  return fails("bucket", "bucket") ? -1 : sent;
}

int rename(const char* from, const char* to) {
  return fails("rename", "rename") ? -1 : REAL(rename)(from, to);
}

// The descriptor is gone even when close reports an error.
int close(int fd) {
  const int failed = is_ours(fd) && fails("close", "close");
  const int result = REAL(close)(fd);
  if (fd >= 0 && fd < (int)sizeof ours) ours[fd] = 0;
  if (failed) errno = error;
  return failed ? -1 : result;
}
