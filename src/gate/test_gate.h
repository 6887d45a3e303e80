// SPDX-License-Identifier: Apache-2.0
// For tests: a gate on its own thread, with its files in a temporary directory.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "base/temporary_directory.h"
#include "gate/live_server.h"

namespace tutti::gate {

class TestGate {
 public:
  TestGate(const TemporaryDirectory& directory, LockTable::Options table, bool tcp = false,
           std::shared_ptr<net::JobCheck> jobs = nullptr)
      : address_(directory / "gate.sock"),
        state_(directory / "gate.state"),
        table_(std::move(table)),
        tcp_(tcp),
        jobs_(std::move(jobs)) {
    EXPECT_TRUE(RunMarker::open(state_)->set_idle());  // there was no previous gate
    start();
  }
  ~TestGate() { stop(); }

  void start() {
    GateServer::Options options{.table = table_, .addresses = {address_}, .state_path = state_, .jobs = jobs_};
    if (tcp_) {
      options.addresses.push_back("tcp:127.0.0.1:0");
      std::ofstream(key_file()) << std::string(32, 'k');
      std::filesystem::permissions(key_file(), std::filesystem::perms::owner_read);
      options.key = *net::load_key(key_file());
    }
    auto server = GateServer::create(std::move(options));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { EXPECT_TRUE(server_->run()); });
  }
  void stop() {
    if (!server_) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  const std::string& address() const { return address_; }
  std::string tcp_address() const { return "tcp:127.0.0.1:" + std::to_string(server_->port()); }
  std::string key_file() const { return address_ + ".key"; }
  const std::string& state() const { return state_; }

 private:
  std::string address_, state_;
  LockTable::Options table_;
  bool tcp_;
  std::shared_ptr<net::JobCheck> jobs_;
  std::unique_ptr<GateServer> server_;
  std::thread thread_;
};

}  // namespace tutti::gate
