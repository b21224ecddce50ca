// SPDX-License-Identifier: Apache-2.0
// The limit of a file's size (ulimit -f) makes memory that is a file fail, and ends no process.
#include "base/reserved_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <ctime>
#include <string>

#include "expect.hpp"
#include "ipc/timeline_page.hpp"
#include "weir/buffer.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"

namespace weir::test {
namespace {

/// Sets the limit for as long as it lives. The signal that the kernel would send waits, and is asked for.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, &signal_, &before_), 0);
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &usual_), 0);
    const rlimit small{bytes, usual_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SmallFiles() {
    const timespec now{};
    const int sent = ::sigtimedwait(&signal_, nullptr, &now);
    (void)::setrlimit(RLIMIT_FSIZE, &usual_);
    (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    EXPECT_NE(sent, SIGXFSZ) << "which ends a process that does not expect it";
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  sigset_t signal_{}, before_{};
  rlimit usual_{};
};

TEST(ReservedFile, SharedMemoryBeyondTheLimitIsExhausted) {
  const Stream stream(host_device());
  const ResourcePtr resource = host::make_shared_resource();
  std::string message;
  bool fits = false, nothing = false;
  {
    const SmallFiles small(16384);
    fits = resource->try_allocate(16384, stream).has_value();
    nothing = !resource->try_allocate(16385, stream);
    try {
      (void)resource->allocate(65536, stream);
    } catch (const OutOfMemory& error) {
      message = error.what();
    }
  }
  EXPECT_TRUE(fits);
  EXPECT_TRUE(nothing);
  EXPECT_NE(message.find("RLIMIT_FSIZE"), std::string::npos) << message;
  EXPECT_TRUE(resource->try_allocate(65536, stream));
}

TEST(ReservedFile, TimelinePagesNeedALimitThatTheyFit) {
  std::string message;
  {
    const SmallFiles small(100);
    try {
      const detail::OwnPage page;
    } catch (const Error& error) {
      message = error.code() == std::errc::file_too_large ? error.what() : "another error";
    }
  }
  EXPECT_NE(message.find("RLIMIT_FSIZE"), std::string::npos) << message;
}

}  // namespace
}  // namespace weir::test
