// SPDX-License-Identifier: Apache-2.0
// A driver that believes what is in shared files can be crashed by whoever has the file. Its memory stays with one user.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "as_nobody.hpp"
#include "fixture.hpp"
#include "folder.hpp"
#include "holding.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/held_set.hpp"
#include "weir/server.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/unique_fd.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using spi::UniqueFd;

const std::chrono::seconds limit = answer_limit();

class OneUser : public OnMemory {
 protected:
  void SetUp() override {
    OnMemory::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user, too";
    ASSERT_EQ(::chmod((folder / "").c_str(), 0777), 0);
  }
  [[nodiscard]] bool stays() const {
    const auto believes = device().state().backend->segments->believes_files;
    return believes && believes(device().state());
  }
  template <class Call>
  void expect_stays(Call call) const {
    if (stays()) {
      EXPECT_ERROR(call(), Errc::permission_denied, "only between processes of one user");
    } else {
      EXPECT_NO_THROW(call());
    }
  }
  /// Return two ends. Behind the second one is another user.
  [[nodiscard]] std::pair<UniqueFd, UniqueFd> connected() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder / "socket";
    std::memcpy(address.sun_path, path.data(), path.size());
    const auto* const name = reinterpret_cast<const sockaddr*>(&address);
    const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    UniqueFd theirs(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener.get(), name, sizeof address), 0);
    EXPECT_EQ(::chmod(path.c_str(), 0666), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    {
      const AsNobody now;
      EXPECT_EQ(::connect(theirs.get(), name, sizeof address), 0);
    }
    return {std::move(theirs), UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
  }

  Folder folder;
};
WEIR_FOR_EACH_EXPORTABLE(OneUser);

TEST_P(OneUser, AChannelNeitherSendsNorOpensWhatTheDriverBelieves) {
  auto [theirs, ours] = connected();
  ipc::Channel there(std::move(theirs)), here(std::move(ours));
  const Buffer buffer = filled(pattern(100, 1));
  expect_stays([&] { here.send(buffer, stream, {}, limit); });
  EXPECT_EQ(here.stats().lent, stays() ? 0U : 1U);
  there.send(buffer, stream, {}, limit);  // what an attacker's program would do
  expect_stays([&] { EXPECT_BYTES(read(here.receive(stream, limit).buffer, stream), pattern(100, 1)); });
}

TEST_P(OneUser, AServerLendsItToItsOwnUserOnly) {
  ipc::Server server(folder / "server", {.users = {0, nobody}});
  server.publish("tensor", filled(pattern(100, 2)), stream);
  const auto get = [&] {
    ipc::Client client(folder / "server");
    EXPECT_BYTES(read(client.get("tensor", stream, limit).buffer(), stream), pattern(100, 2));
  };
  EXPECT_NO_THROW(get());
  expect_stays([&] {
    const AsNobody now;
    get();
  });
}

TEST_P(OneUser, AHolderOfAnotherUserIsNotGivenIt) {
  const HolderThread holder({.other_users = true});
  ASSERT_EQ(::chmod(holder.path().substr(0, holder.path().rfind('/')).c_str(), 0755), 0);
  const auto commit = [&] {
    ipc::SetWriter writer(holder.path(), "set", {.other_users = true});
    writer.add("tensor", filled(pattern(100, 3)).view(u8, {100}), stream);
    (void)writer.commit(limit);
  };
  expect_stays([&] {
    const AsNobody now;
    commit();
  });
  EXPECT_NO_THROW(commit());
  const auto open = [&] {
    ipc::SetReader reader(holder.path(), "set", {.other_users = true});
    EXPECT_BYTES(read(reader.open(stream, limit).tensors.at("tensor").buffer(), stream), pattern(100, 3));
  };
  expect_stays([&] {
    const AsNobody now;
    open();
  });
  EXPECT_NO_THROW(open());
}

/// A holder whose socket everybody can reach, whoever it means to serve.
class HolderOfAnotherUser : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user, too";
    ASSERT_EQ(::chmod(holder.path().substr(0, holder.path().rfind('/')).c_str(), 0755), 0);
    ASSERT_EQ(::chmod(holder.path().c_str(), 0666), 0);
  }

  HolderThread holder{{.other_users = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Every, HolderOfAnotherUser, testing::Bool(),
                         [](const auto& each) { return each.param ? "ForAll" : "ForItsUser"; });

TEST_P(HolderOfAnotherUser, IsUsedWhereBothSidesWantTo) {
  const auto read = [&](bool other_users) {
    const AsNobody now;
    const ipc::SetReader reader(holder.path(), "set", {.other_users = other_users});
  };
  EXPECT_ERROR(read(false), Errc::permission_denied, "is another user's");
  if (GetParam()) {
    EXPECT_NO_THROW(read(true));
  } else {
    EXPECT_ERROR(read(true), Errc::peer_gone, "");
  }
}

}  // namespace
}  // namespace weir::test
