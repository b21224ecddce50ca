// SPDX-License-Identifier: Apache-2.0
#include "system_calls.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <type_traits>

#include "ipc/leases.hpp"
#include "loop.hpp"
#include "refused.hpp"

namespace {

using weir::test::Code;
using weir::test::refuse;
using weir::test::refused;

constexpr const char* again = "the call is made again";
constexpr const char* room = "asked again once other memory came back";
constexpr const char* hint = "only a hint";
constexpr const char* closed = "the descriptor is closed whatever close says";

constexpr const char* owed = "what a connection owes its peer is sent again";
constexpr const char* once = "said once; what came before is still to be read";
constexpr const char* over = "nothing is left to be said to a peer that is gone";
constexpr const char* gone = "sendmsg|recvmsg|is gone|it hung up|the peer ended before its work";

constexpr Code of_memfd_create[] = {{EMFILE}, {ENFILE}, {ENOMEM}};
constexpr Code of_fallocate[] = {{ENOSPC, room}, {ENOMEM, room}, {EINTR, again}, {EPERM}};
constexpr Code of_seals[] = {{EBUSY}, {EPERM}};
constexpr Code of_dup[] = {{EMFILE}};
constexpr Code of_fchmod[] = {{EPERM}};
constexpr Code of_fstat[] = {{ENOMEM}};
constexpr Code of_mmap[] = {{ENOMEM, room}, {EPERM}};
constexpr Code of_munmap[] = {{ENOMEM}};
constexpr Code of_madvise[] = {{EINVAL, hint}, {ENOMEM, hint}};
constexpr Code of_aligned_alloc[] = {{ENOMEM, room}};
constexpr Code of_socketpair[] = {{EMFILE}, {ENFILE}, {ENOMEM}};
constexpr Code of_shutdown[] = {{ENOBUFS}};
constexpr Code of_ending[] = {{ENOTCONN, "whoever gives a connection up has said so to its callers"}};
constexpr Code of_pipe[] = {{EMFILE}, {ENFILE}, {ENOMEM}};
constexpr Code of_pipe_size[] = {{EPERM, hint}, {ENOMEM, hint}};
constexpr Code of_splice[] = {{ENOMEM, nullptr, "file descriptor is not the write end"}};
constexpr Code of_getsockopt[] = {{ENOBUFS, nullptr, "getsockopt|is not one end|is not a|another user's|of a user that|it hung up"}};
constexpr Code of_setsockopt[] = {{ENOMEM, "a peer that is not known is lent memory, too"}};
constexpr Code of_epoll_create[] = {{EMFILE}, {ENFILE}, {ENOMEM}};
constexpr Code of_epoll_add[] = {{ENOMEM}, {ENOSPC}};
constexpr Code of_epoll_wait[] = {{EINTR, again}};
constexpr Code of_eventfd[] = {{EMFILE}, {ENFILE}, {ENOMEM}};
constexpr Code of_poll[] = {{EINTR, again}, {ENOMEM, again}};
constexpr Code of_send[] = {{EINTR, again}, {ENOBUFS}};
constexpr Code of_ioctl[] = {{ENOMEM, again}};
constexpr Code of_sendmsg[] = {{EINTR, again}, {EPIPE, over, gone}, {ENOBUFS, owed}, {ETOOMANYREFS, owed}};
constexpr Code of_recvmsg[] = {{EINTR, again}, {EAGAIN, again}, {ECONNRESET, once, gone}, {ENOMEM}};
constexpr Code of_close[] = {{EIO, closed}, {EINTR, closed}};
constexpr Code of_thread[] = {{EAGAIN}};
constexpr Code of_random[] = {{ENOSYS}};

struct Failed {
  const char* call = nullptr;
  std::span<const Code> codes;
  Code code{};
};

std::mutex mutex;  // of what follows
bool armed = false;
const char* only = nullptr;  // the call that is counted, or all
std::size_t calls = 0, wanted = 0, wanted_code = 0;
Failed failed;

std::atomic<long> running{0};

// What a thread runs is private from libstdc++ 13 on; an explicit instantiation may name it all the same.
struct OfThread {};
constexpr auto state_type(OfThread);
template <class T>
struct Reveal {
  friend constexpr auto state_type(OfThread) { return std::type_identity<T>{}; }
};
template struct Reveal<std::thread::_State>;
using ThreadState = decltype(state_type(OfThread{}))::type;

/// What a thread runs and owns. Itself not the program's memory, since it outlives what it counts.
class CountedThread final : public ThreadState {
 public:
  explicit CountedThread(std::unique_ptr<ThreadState> inner) : inner_(std::move(inner)) { ++running; }
  ~CountedThread() override {
    inner_.reset();
    --running;
  }
  CountedThread(const CountedThread&) = delete;
  CountedThread& operator=(const CountedThread&) = delete;
  void _M_run() override { inner_->_M_run(); }
  static void* operator new(std::size_t bytes) {
    if (void* data = std::malloc(bytes)) return data;
    throw std::bad_alloc();
  }
  static void operator delete(void* data) { std::free(data); }

 private:
  std::unique_ptr<ThreadState> inner_;
};

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" {
int __real_memfd_create(const char*, unsigned);
int __wrap_memfd_create(const char* name, unsigned flags) {
  return refuse("memfd_create", of_memfd_create) ? -1 : __real_memfd_create(name, flags);
}
int __real_posix_fallocate(int, off_t, off_t);
int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes) {
  const int error = refused("posix_fallocate", of_fallocate);
  return error != 0 ? error : __real_posix_fallocate(fd, offset, bytes);
}
int __real_fcntl(int, int, ...);
int __wrap_fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  const bool seals = command == F_ADD_SEALS || command == F_GET_SEALS;
  if (seals && refuse("fcntl", of_seals)) return -1;
  if (command == F_SETPIPE_SZ && refuse("fcntl", of_pipe_size)) return -1;
  if (command == F_DUPFD_CLOEXEC && refuse("fcntl", of_dup)) return -1;
  return __real_fcntl(fd, command, argument);
}
int __real_fstat(int, struct stat*);
int __wrap_fstat(int fd, struct stat* status) { return refuse("fstat", of_fstat) ? -1 : __real_fstat(fd, status); }

int __real_fchmod(int, mode_t);
int __wrap_fchmod(int fd, mode_t mode) { return refuse("fchmod", of_fchmod) ? -1 : __real_fchmod(fd, mode); }

int __real_fstatfs(int, struct statfs*);
int __wrap_fstatfs(int fd, struct statfs* status) {
  return refuse("fstatfs", of_fstat) ? -1 : __real_fstatfs(fd, status);
}
void* __real_mmap(void*, std::size_t, int, int, int, off_t);
void* __wrap_mmap(void* at, std::size_t bytes, int access, int flags, int fd, off_t offset) {
  return refuse("mmap", of_mmap) ? MAP_FAILED : __real_mmap(at, bytes, access, flags, fd, offset);
}
// What gives back takes effect all the same: else it would be this test that leaks.
int __real_munmap(void*, std::size_t);
int __wrap_munmap(void* at, std::size_t bytes) {
  const int result = __real_munmap(at, bytes);
  return refuse("munmap", of_munmap) ? -1 : result;
}
int __real_close(int);
int __wrap_close(int fd) {
  const int result = __real_close(fd);
  return refuse("close", of_close) ? -1 : result;
}
int __real_madvise(void*, std::size_t, int);
int __wrap_madvise(void* at, std::size_t bytes, int advice) {
  return refuse("madvise", of_madvise) ? -1 : __real_madvise(at, bytes, advice);
}
void* __real_aligned_alloc(std::size_t, std::size_t);
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return refuse("aligned_alloc", of_aligned_alloc) ? nullptr : __real_aligned_alloc(alignment, bytes);
}
int __real_socketpair(int, int, int, int*);
int __wrap_socketpair(int domain, int type, int protocol, int* ends) {
  return refuse("socketpair", of_socketpair) ? -1 : __real_socketpair(domain, type, protocol, ends);
}
int __real_shutdown(int, int);
int __wrap_shutdown(int fd, int how) {
  if (how != SHUT_RDWR) return refuse("shutdown", of_shutdown) ? -1 : __real_shutdown(fd, how);
  const int result = __real_shutdown(fd, how);
  return refuse("shutdown", of_ending) ? -1 : result;
}
int __real_pipe2(int*, int);
int __wrap_pipe2(int* ends, int flags) { return refuse("pipe2", of_pipe) ? -1 : __real_pipe2(ends, flags); }
ssize_t __real_splice(int, off64_t*, int, off64_t*, std::size_t, unsigned);
ssize_t __wrap_splice(int from, off64_t* at, int to, off64_t* there, std::size_t bytes, unsigned flags) {
  return refuse("splice", of_splice) ? -1 : __real_splice(from, at, to, there, bytes, flags);
}
int __real_epoll_create1(int);
int __wrap_epoll_create1(int flags) {
  return refuse("epoll_create1", of_epoll_create) ? -1 : __real_epoll_create1(flags);
}
int __real_epoll_ctl(int, int, int, epoll_event*);
int __wrap_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  if (operation == EPOLL_CTL_ADD && refuse("epoll_ctl", of_epoll_add)) return -1;
  const int result = __real_epoll_ctl(epoll, operation, fd, event);
  if (operation == EPOLL_CTL_DEL) {
    EXPECT_EQ(result, 0) << "file " << fd << " is not watched: " << std::strerror(errno);
  }
  return result;
}
int __real_epoll_wait(int, epoll_event*, int, int);
int __wrap_epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  return refuse("epoll_wait", of_epoll_wait) ? -1 : __real_epoll_wait(epoll, events, most, timeout);
}
int __real_eventfd(unsigned, int);
int __wrap_eventfd(unsigned value, int flags) {
  return refuse("eventfd", of_eventfd) ? -1 : __real_eventfd(value, flags);
}
int __real_getsockopt(int, int, int, void*, socklen_t*);
int __wrap_getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
  return refuse("getsockopt", of_getsockopt) ? -1 : __real_getsockopt(fd, level, name, value, size);
}
int __real_setsockopt(int, int, int, const void*, socklen_t);
int __wrap_setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
  return refuse("setsockopt", of_setsockopt) ? -1 : __real_setsockopt(fd, level, name, value, size);
}
int __real_poll(pollfd*, nfds_t, int);
int __wrap_poll(pollfd* entries, nfds_t count, int timeout) {
  if (timeout == 1 << 30 && weir::test::ends_early()) return 0;
  return refuse("poll", of_poll) ? -1 : __real_poll(entries, count, timeout);
}
ssize_t __real_send(int, const void*, std::size_t, int);
ssize_t __wrap_send(int fd, const void* data, std::size_t bytes, int flags) {
  return refuse("send", of_send) ? -1 : __real_send(fd, data, bytes, flags);
}
int __real_ioctl(int, unsigned long, ...);
int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  return refuse("ioctl", of_ioctl) ? -1 : __real_ioctl(fd, request, argument);
}
ssize_t __real_sendmsg(int, const msghdr*, int);
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  if (!refuse("sendmsg", of_sendmsg)) return __real_sendmsg(fd, message, flags);
  if (errno == EPIPE) (void)__real_shutdown(fd, SHUT_RDWR);  // that is what the error says
  return -1;
}
ssize_t __real_recvmsg(int, msghdr*, int);
ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  // Where a look at what is left in a connection is refused, a thread that may block closes the socket.
  if ((flags & MSG_PEEK) == 0 && refuse("recvmsg", of_recvmsg)) return -1;
  return __real_recvmsg(fd, message, flags);
}

// std::thread's constructor and std::random_device's, as libstdc++ names them.
void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread*, std::unique_ptr<ThreadState>, void (*)());
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, std::unique_ptr<ThreadState> state, void (*depend)()) {
  if (const int error = refused("thread", of_thread)) throw std::system_error(error, std::generic_category());
  const bool of_a_test = testing::UnitTest::GetInstance()->current_test_info() != nullptr;  // not of its watchdog
  if (of_a_test) state = std::make_unique<CountedThread>(std::move(state));
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(self, std::move(state),
                                                                                               depend);
}
void __real__ZNSt13random_device7_M_initERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(void*,
                                                                                                const std::string&);
void __wrap__ZNSt13random_device7_M_initERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    void* self, const std::string& token) {
  if (refused("random_device", of_random)) throw std::runtime_error("random_device::random_device: no entropy");
  __real__ZNSt13random_device7_M_initERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(self, token);
}
}
// NOLINTEND(bugprone-reserved-identifier)

namespace weir::test {

int refused(const char* call, std::span<const Code> codes) {
  const std::scoped_lock lock(mutex);
  if (!armed || (only && std::strcmp(call, only) != 0) || ++calls != wanted) return 0;
  failed = {call, codes, codes[wanted_code % codes.size()]};
  return failed.code.error;
}

bool refuse(const char* call, std::span<const Code> codes) {
  const int error = refused(call, codes);
  if (error != 0) errno = error;
  return error != 0;
}

std::atomic<int> ended_early{0};

bool ends_early() {
  for (int left = ended_early; left > 0;) {
    if (ended_early.compare_exchange_weak(left, left - 1)) return true;
  }
  return false;
}

bool threads_ended() {
  // One watches the leases, for as long as there are any: what is leaked keeps its own.
  return eventually([] { return running.load() <= (detail::granted_leases() != 0 ? 1 : 0); });
}

void FailingSystemCalls::arm(std::size_t nth, std::size_t code) { arm_only(nullptr, nth, code); }

void FailingSystemCalls::arm_only(const char* call, std::size_t nth, std::size_t code) {
  const std::scoped_lock lock(mutex);
  armed = true;
  only = call;
  wanted = nth;
  wanted_code = code;
  calls = 0;
  failed = {};
}

std::optional<Injected> FailingSystemCalls::disarm() {
  const std::scoped_lock lock(mutex);
  armed = false;
  if (!failed.call) return std::nullopt;
  return Injected{failed.call, std::strerror(failed.code.error), failed.codes.size(), failed.code.names};
}

void FailingSystemCalls::settle() {
  driver_ ? driver_->settle() : settle_core(device_);
  EXPECT_TRUE(threads_ended());
}

std::map<std::string, long> FailingSystemCalls::alive() {
  return driver_ ? driver_->alive() : std::map<std::string, long>{};
}
const char* FailingSystemCalls::harmless(const Injected& /*call*/) { return failed.code.harmless; }

}  // namespace weir::test
