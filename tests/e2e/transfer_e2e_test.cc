// SPDX-License-Identifier: Apache-2.0
// `tutti put`, `get`, `cp` and `cat` with real nodes: a file is copied completely or not at all, and no command
// destroys the file it reads or replaces.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "base/prng.h"
#include "base/temporary_directory.h"
#include "base/testing.h"
#include "processes.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using namespace e2e;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Words = std::vector<std::string>;

class TransferTest : public testing::Test {
 protected:
  void SetUp() override {
    chmod(base_.path().c_str(), 0755);
    // A shell starts programs in the background with SIGINT ignored; the commands would inherit that from this test.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
    umask(022);
  }
  void TearDown() override {
    if (fs::exists(directory_ + "/cluster.toml")) run({TUTTI_BINARY, "down", "--dir", directory_, "--now"});
  }

  // `before`: a command prefix, such as a program that sets limits.
  void up(const Words& more = {}, Words before = {}) {
    before.insert(before.end(), {TUTTI_BINARY, "up", "--dir", directory_, "--nodes", "2", "--stripe-size", "64KiB"});
    before.insert(before.end(), more.begin(), more.end());
    const Outcome outcome = run(before);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  }

  Words command(Words words, Words before = {}) const {
    before.push_back(TUTTI_BINARY);
    before.insert(before.end(), words.begin(), words.end());
    before.insert(before.end(), {"--cluster", directory_ + "/cluster.toml"});
    return before;
  }
  Outcome tutti(const Words& words, const Words& before = {}) const { return run(command(words, before)); }
  // A line for the shell in which $TUTTI stands for the program.
  Outcome shell(const std::string& line) const {
    return run({"env", "TUTTI=" TUTTI_BINARY, "TUTTI_CLUSTER=" + directory_ + "/cluster.toml", "sh", "-c", line});
  }

  static void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
    { std::ofstream(path, std::ios::binary) << text; }
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  static struct stat look(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
    return status;
  }
  static mode_t mode_of(const std::string& path) { return look(path).st_mode & 07777; }

  // Temporary files in the served directory and in the local one.
  std::vector<std::string> temporaries() const {
    std::vector<std::string> found;
    for (const std::string& folder : {files_, base_.path()})
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().filename().string().find("tutti-tmp") != std::string::npos) found.push_back(entry.path());
    return found;
  }
  bool wait_for_temporaries(std::size_t count) const {
    return wait_until(20s, [&] { return temporaries().size() == count; });
  }

  // The command must refuse to copy the file onto itself and leave it as it is.
  void expect_refused(const Outcome& outcome, const std::string& path, const std::string& text) {
    EXPECT_EQ(outcome.status, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("both are the same file"));
    EXPECT_EQ(content(path), text);
    EXPECT_THAT(temporaries(), IsEmpty());
  }

  const TemporaryDirectory base_;
  const std::string directory_ = base_ / "cluster", files_ = directory_ + "/files/";
};

// A FIFO with both ends open in this process, so that open() does not wait and readers get no end of file.
class Fifo {
 public:
  explicit Fifo(const std::string& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    descriptor_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_GE(descriptor_, 0);
  }
  ~Fifo() { end(); }
  void send(const std::string& text) {
    EXPECT_EQ(::write(descriptor_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void end() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_ = -1;
};

TEST_F(TransferTest, PutOntoItselfIsRefused) {
  up();
  write(files_ + "f", "content");
  fs::create_symlink(files_ + "f", base_ / "link");
  fs::create_symlink("f", files_ + "inner");
  fs::create_hard_link(files_ + "f", base_ / "hard");
  const ino_t inode = look(files_ + "f").st_ino;
  for (const std::string& from : {files_ + "f", base_ / "link", base_ / "hard", files_ + "inner"})
    for (const std::string to : {"f", "inner", "."}) {
      if (to == "." && !from.ends_with("/f")) continue;  // it would be a file with the name of the source
      SCOPED_TRACE(from + " to " + to);
      expect_refused(tutti({"put", from, to}), files_ + "f", "content");
    }
  expect_refused(shell("cd '" + files_ + "' && $TUTTI put f"), files_ + "f", "content");
  expect_refused(shell("$TUTTI put - f < '" + files_ + "f'"), files_ + "f", "content");
  EXPECT_EQ(look(files_ + "f").st_ino, inode);
}

TEST_F(TransferTest, GetOntoItselfIsRefused) {
  up();
  write(files_ + "f", "content");
  fs::create_symlink(files_ + "f", base_ / "link");
  fs::create_symlink("f", files_ + "inner");
  fs::create_hard_link(files_ + "f", base_ / "hard");
  for (const std::string from : {"f", "inner"})
    for (const std::string& to : {files_ + "f", base_ / "link", base_ / "hard", files_ + "inner"}) {
      SCOPED_TRACE(from + " to " + to);
      expect_refused(tutti({"get", from, to}), files_ + "f", "content");
    }
  expect_refused(tutti({"get", "f", files_}), files_ + "f", "content");
  expect_refused(shell("cd '" + files_ + "' && $TUTTI get f"), files_ + "f", "content");
  expect_refused(shell("$TUTTI cat f >> '" + files_ + "f'"), files_ + "f", "content");
}

TEST_F(TransferTest, CopyOntoItselfIsRefused) {
  up();
  write(files_ + "f", "content");
  fs::create_symlink("f", files_ + "link");
  fs::create_hard_link(files_ + "f", files_ + "hard");
  for (const std::string from : {"f", "link", "hard"})
    for (const std::string to : {"f", "link", "hard", "./f"}) {
      SCOPED_TRACE(from + " to " + to);
      expect_refused(tutti({"cp", from, to}), files_ + "f", "content");
    }
  expect_refused(tutti({"cp", "f", "."}), files_ + "f", "content");
}

TEST_F(TransferTest, LargeFilesAreCopiedInPartsThatFitTogether) {
  up();
  Prng prng(1);
  std::string text((21 << 20) + 123, '\0');
  for (char& c : text) c = static_cast<char>(prng.below(256));
  write(base_ / "large", text, 0640);
  for (const Words& words : {Words{"put", base_ / "large", "large"},
                             {"cp", "large", "copy"},
                             {"get", "--no-sync", "copy", base_ / "back"}}) {
    const Outcome outcome = tutti(words);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  }
  EXPECT_TRUE(content(files_ + "large") == text);
  EXPECT_TRUE(content(base_ / "back") == text);
  EXPECT_EQ(mode_of(base_ / "back"), 0640U);
  // From standard input, which may be a file, too, and begins where the shell left it.
  ASSERT_EQ(shell("{ head -c 5 > /dev/null; $TUTTI put - rest; } < " + base_ / "large").status, 0);
  EXPECT_EQ(tutti({"cp", "large"}).status, 2);
  EXPECT_THAT(temporaries(), IsEmpty());
}

TEST_F(TransferTest, OtherFilesWithEqualContentAreReplaced) {
  up();
  write(base_ / "f", "content");
  write(files_ + "f", "content", 0600);
  fs::last_write_time(files_ + "f", fs::last_write_time(base_ / "f"));
  EXPECT_EQ(tutti({"put", base_ / "f"}).status, 0);
  EXPECT_EQ(mode_of(files_ + "f"), 0644U);
  EXPECT_EQ(tutti({"get", "f", base_ / "f"}).status, 0);
  EXPECT_EQ(content(base_ / "f"), "content");
}

TEST_F(TransferTest, ADirectoryAsSourceChangesNothing) {
  up();
  fs::create_directory(base_ / "folder");
  fs::create_directory(files_ + "folder");
  write(files_ + "f", "content");
  write(base_ / "f", "local content");
  for (const Words& words : {Words{"put", base_ / "folder", "f"}, Words{"cp", "folder", "f"},
                             Words{"get", "folder", base_ / "f"}, Words{"cat", "folder"}}) {
    const Outcome outcome = tutti(words);
    EXPECT_EQ(outcome.status, 1) << words[0];
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("Is a directory"), HasSubstr("Nothing was written")));
  }
  EXPECT_EQ(tutti({"put", base_ / "nothing", "f"}).status, 1);
  EXPECT_EQ(tutti({"cp", "nothing", "f"}).status, 1);
  EXPECT_EQ(tutti({"get", "nothing", base_ / "f"}).status, 1);
  EXPECT_EQ(content(files_ + "f"), "content");
  EXPECT_EQ(content(base_ / "f"), "local content");
  EXPECT_EQ(tutti({"put", base_ / "f", "f/"}).status, 1) << "it is not a directory";
  EXPECT_EQ(tutti({"put", base_ / "f", "new/"}).status, 1);
  EXPECT_EQ(tutti({"get", "f", base_ / "new/"}).status, 1);
  EXPECT_FALSE(fs::exists(files_ + "new"));
}

TEST_F(TransferTest, TheModeOfTheSourceIsKept) {
  up();
  write(base_ / "f", "content");
  write(files_ + "replaced", "old", 0666);
  for (const mode_t mode : {0640U, 0755U, 0600U, 0444U, 0666U}) {
    SCOPED_TRACE(mode);
    chmod((base_ / "f").c_str(), mode);
    for (const std::string mask : {"022", "077"}) {
      const Outcome outcome =
          shell("set -e; umask " + mask + "; cd '" + base_.path() + "'; $TUTTI put f; $TUTTI put f new" + mask +
                "; $TUTTI cp f copy; $TUTTI get copy back");
      EXPECT_EQ(outcome.status, 0) << outcome.output;
      for (const std::string& path : {files_ + "f", files_ + "new" + mask, files_ + "copy", base_ / "back"})
        EXPECT_EQ(mode_of(path), mode) << path << " with umask " << mask;
    }
  }
  EXPECT_EQ(tutti({"put", base_ / "f", "replaced"}).status, 0);
  EXPECT_EQ(mode_of(files_ + "replaced"), 0666U);
  chmod((base_ / "f").c_str(), 06755);
  EXPECT_EQ(tutti({"put", base_ / "f"}).status, 0);
  EXPECT_EQ(mode_of(files_ + "f"), 0755U) << "the copy has another owner";
}

TEST_F(TransferTest, StandardInputAndOutput) {
  up();
  EXPECT_EQ(shell("umask 022; printf text | $TUTTI put - f").status, 0);
  EXPECT_EQ(content(files_ + "f"), "text");
  EXPECT_EQ(mode_of(files_ + "f"), 0644U);
  EXPECT_EQ(shell("umask 027; printf more | $TUTTI put - g").status, 0);
  EXPECT_EQ(mode_of(files_ + "g"), 0640U);
  EXPECT_EQ(shell("$TUTTI put - empty < /dev/null").status, 0);
  EXPECT_TRUE(fs::is_empty(files_ + "empty"));
  EXPECT_EQ(tutti({"get", "f", "-"}).output, "text");
  EXPECT_EQ(tutti({"cat", "f"}).output, "text");
  EXPECT_EQ(shell("$TUTTI put /proc/self/status status && $TUTTI cat status | grep -q State").status, 0);
  EXPECT_EQ(shell("cd '" + base_.path() + "'; (printf 'before '; $TUTTI get f /dev/stdout; $TUTTI cat f) > out").status,
            0);
  EXPECT_EQ(content(base_ / "out"), "before texttext");
  EXPECT_EQ(shell("$TUTTI get f /dev/fd/7 7>> '" + base_.path() + "/out'").status, 0);
  EXPECT_EQ(content(base_ / "out"), "before texttexttext");
  const std::string close_all = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ";
  for (int number = 3; number < 10; ++number)
    EXPECT_EQ(shell(close_all + "$TUTTI get f /dev/fd/" + std::to_string(number)).status, 1) << "not inherited";
  EXPECT_EQ(shell("$TUTTI cat f >&-").status, 1);
  EXPECT_EQ(shell("$TUTTI put - f <&-").status, 1);
  EXPECT_EQ(shell("$TUTTI cat nothing 2>&-").status, 1);
  EXPECT_EQ(content(files_ + "f"), "text");
  EXPECT_THAT(temporaries(), IsEmpty());
}

TEST_F(TransferTest, ALinkAsDestinationStaysALink) {
  up();
  write(base_ / "new", "new");
  write(base_ / "target", "old");
  write(files_ + "new", "new");
  fs::create_symlink("target", base_ / "link");
  EXPECT_EQ(tutti({"get", "new", base_ / "link"}).status, 0);
  EXPECT_TRUE(fs::is_symlink(base_ / "link"));
  EXPECT_EQ(content(base_ / "target"), "new");

  // deep/link is real/inner/link, and ".." in it is real.
  fs::create_directories(files_ + "real/inner");
  fs::create_directory_symlink("real/inner", files_ + "deep");
  fs::create_symlink("../hop", files_ + "real/inner/link");
  fs::create_symlink("./inner/../target", files_ + "real/hop");
  write(files_ + "real/target", "old");
  write(files_ + "target", "another");
  EXPECT_EQ(tutti({"put", base_ / "new", "deep/link"}).status, 0);
  EXPECT_TRUE(fs::is_symlink(files_ + "real/inner/link"));
  EXPECT_TRUE(fs::is_symlink(files_ + "real/hop"));
  EXPECT_EQ(content(files_ + "real/target"), "new");
  EXPECT_EQ(content(files_ + "target"), "another");
  EXPECT_EQ(tutti({"cp", "new", "real/hop"}).status, 0);
  EXPECT_TRUE(fs::is_symlink(files_ + "real/hop"));

  fs::create_symlink("nothing", base_ / "dangling");
  fs::create_symlink("nothing", files_ + "dangling");
  fs::create_symlink(base_ / "target", files_ + "outside");
  for (const Words& words : {Words{"get", "new", base_ / "dangling"}, Words{"put", base_ / "new", "dangling"},
                             Words{"put", base_ / "new", "outside"}}) {
    const Outcome outcome = tutti(words);
    EXPECT_EQ(outcome.status, 1) << words[2];
    EXPECT_THAT(outcome.output, HasSubstr("Nothing was written"));
  }
  EXPECT_TRUE(fs::is_symlink(base_ / "dangling") && fs::is_symlink(files_ + "dangling"));
  EXPECT_TRUE(fs::is_symlink(files_ + "outside"));
}

TEST_F(TransferTest, FifosAndDevicesAreWrittenToDirectly) {
  up();
  write(files_ + "f", "content");
  ASSERT_EQ(mkfifo((base_ / "fifo").c_str(), 0600), 0);
  const Outcome outcome = shell("cd '" + base_.path() + "'; cat fifo > out & $TUTTI get f fifo; s=$?; wait; exit $s");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(content(base_ / "out"), "content");
  EXPECT_TRUE(fs::is_fifo(base_ / "fifo"));
  if (mknod((base_ / "null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0) {
    EXPECT_EQ(tutti({"get", "f", base_ / "null"}).status, 0);
    EXPECT_TRUE(fs::is_character_file(base_ / "null"));
  }
  ASSERT_EQ(mkfifo((files_ + "fifo").c_str(), 0600), 0);
  EXPECT_EQ(tutti({"cp", "f", "fifo"}).status, 1) << "no process of the cluster could read it";
  EXPECT_TRUE(fs::is_fifo(files_ + "fifo"));
  EXPECT_EQ(tutti({"cat", "fifo"}).status, 1);
}

TEST_F(TransferTest, AnInterruptedPutLeavesTheOldContent) {
  up();
  write(files_ + "f", "old content");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    SCOPED_TRACE(number);
    Fifo fifo(base_ / "fifo");
    fifo.send("a part of the new content");
    Child put(command({"put", base_ / "fifo", "f"}));
    ASSERT_TRUE(wait_for_temporaries(1));
    EXPECT_EQ(content(files_ + "f"), "old content");
    ASSERT_EQ(kill(put.id(), number), 0);
    kill(put.id(), number);  // as timeout(1) does
    EXPECT_EQ(put.wait(20s), 128 + number);
    EXPECT_EQ(content(files_ + "f"), "old content");
    EXPECT_THAT(temporaries(), IsEmpty());
    fs::remove(base_ / "fifo");
  }
}

// Sixty-four gibibytes from modelled disks take minutes: the commands cannot be done before the signal.
TEST_F(TransferTest, InterruptedGetAndCopyLeaveTheOldContent) {
  up({"--device", "hdd"});
  write(files_ + "large", "");
  fs::resize_file(files_ + "large", std::uint64_t{64} << 30);
  write(files_ + "f", "old content");
  write(base_ / "f", "old content");
  for (const Words& words : {Words{"get", "large", base_ / "f"}, Words{"cp", "large", "f"}}) {
    Child child(command(words));
    ASSERT_TRUE(wait_for_temporaries(1));
    ASSERT_TRUE(wait_until(20s, [file = temporaries().at(0)] { return fs::file_size(file) > 0; }));
    ASSERT_EQ(kill(child.id(), SIGTERM), 0);
    EXPECT_EQ(child.wait(30s), 128 + SIGTERM);
    EXPECT_EQ(content(words[2] == "f" ? files_ + "f" : base_ / "f"), "old content");
    EXPECT_THAT(temporaries(), IsEmpty());
  }
}

TEST_F(TransferTest, SignalsThatWereIgnoredStayIgnored) {
  up();
  Fifo fifo(base_ / "fifo");
  signal(SIGHUP, SIG_IGN);  // as nohup does
  Child put(command({"put", base_ / "fifo", "f"}));
  signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(wait_for_temporaries(1));
  kill(put.id(), SIGHUP);
  fifo.send("content");
  fifo.end();
  EXPECT_EQ(put.wait(20s), 0);
  EXPECT_EQ(content(files_ + "f"), "content");
}

TEST_F(TransferTest, AFailedGetLeavesTheOldContent) {
  up();
  write(files_ + "f", std::string(2 << 20, 'n'));
  write(base_ / "f", "old content");
  for (const std::string to : {"f", "new"}) {
    const Outcome outcome = tutti({"get", "f", base_ / to}, {"prlimit", "--fsize=1000000"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("File too large"), HasSubstr("of 2 MiB were written to"),
                                      HasSubstr("which was removed"), HasSubstr(to + " was not c")));
  }
  EXPECT_EQ(content(base_ / "f"), "old content");
  EXPECT_FALSE(fs::exists(base_ / "new"));
  EXPECT_THAT(temporaries(), IsEmpty());
}

TEST_F(TransferTest, FailedPutAndCopyLeaveTheOldContent) {
  up({}, {"env", "--ignore-signal=XFSZ", "prlimit", "--fsize=12000000"});  // nodes cannot write larger files
  write(base_ / "f", std::string(20 << 20, 'n'));
  write(files_ + "large", std::string(20 << 20, 'n'));
  write(files_ + "f", "old content");
  for (const Words& words :
       {Words{"put", base_ / "f", "f"}, Words{"cp", "large", "f"}, Words{"put", base_ / "f", "new"}}) {
    const Outcome outcome = tutti(words);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("File too large"), HasSubstr("8 MiB of 20 MiB were written to"),
                                      HasSubstr("which was removed")));
  }
  EXPECT_EQ(content(files_ + "f"), "old content");
  EXPECT_FALSE(fs::exists(files_ + "new"));
  EXPECT_THAT(temporaries(), IsEmpty());
}

TEST_F(TransferTest, TwoSourcesOfOneNameAreRefused) {
  up();
  for (const std::string& folder : {base_.path(), files_.substr(0, files_.size() - 1)})
    for (const std::string name : {"a", "b", "to"}) {
      fs::create_directory(folder + "/" + name);
      if (name != "to") write(folder + "/" + name + "/x", name);
    }
  for (const Words& words : {Words{"put", base_ / "a/x", base_ / "b/x", "to"},
                             {"cp", "a/x", "b/x", "to"},
                             {"get", "a/x", "b/x", base_ / "to"}}) {
    const Outcome outcome = tutti(words);
    EXPECT_EQ(outcome.status, 2) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(words[1] + " and " + words[2]), HasSubstr(words[3])));
  }
  EXPECT_TRUE(fs::is_empty(files_ + "to") && fs::is_empty(base_ / "to"));
}

// Several small files are sent before anybody asks whether their names exist: all checks are made nevertheless.
TEST_F(TransferTest, SeveralSmallFilesReplaceOnlyWhatMayBeReplaced) {
  up();
  fs::create_directory(base_ / "from");
  fs::create_directory(files_ + "to");
  fs::create_directory(files_ + "to/folder");
  fs::create_directory(files_ + "other");
  write(files_ + "other/linked", "old");
  write(files_ + "to/existing", "old", 0600);
  write(files_ + "to/self", "myself");
  fs::create_symlink("../other/linked", files_ + "to/link");
  fs::create_symlink("nothing", files_ + "to/dangling");
  fs::create_hard_link(files_ + "to/self", base_ / "from/self");
  for (const std::string name : {"new", "existing", "link", "dangling", "folder"})
    write(base_ / ("from/" + name), "new " + name, 0640);

  const Outcome outcome = shell("cd '" + base_.path() + "/from' && $TUTTI put * to");
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("put self to to: both are the same file"), HasSubstr("to/folder: Is a directory"),
                    HasSubstr("to/dangling is a symbolic link to a file that does not exist")));
  EXPECT_EQ(content(files_ + "to/new"), "new new");
  EXPECT_EQ(content(files_ + "to/existing"), "new existing");
  EXPECT_EQ(mode_of(files_ + "to/existing"), 0640u);
  EXPECT_EQ(content(files_ + "to/self"), "myself");
  EXPECT_TRUE(fs::is_symlink(files_ + "to/link"));
  EXPECT_EQ(content(files_ + "other/linked"), "new link");
  EXPECT_TRUE(fs::is_symlink(files_ + "to/dangling"));
  EXPECT_TRUE(fs::is_directory(files_ + "to/folder"));
  EXPECT_THAT(shell("ls -A " + files_ + "to " + files_ + "other").output, Not(HasSubstr("tutti-tmp")));
}

TEST_F(TransferTest, TwoTransfersToOneNameDoNotMix) {
  up();
  write(files_ + "f", "old content");
  Fifo first(base_ / "first"), second(base_ / "second");
  Child put_first(command({"put", base_ / "first", "f"})), put_second(command({"put", base_ / "second", "f"}));
  ASSERT_TRUE(wait_for_temporaries(2));
  first.send("a much longer text");
  second.send("short");
  EXPECT_EQ(content(files_ + "f"), "old content");
  first.end();
  EXPECT_EQ(put_first.wait(20s), 0);
  EXPECT_EQ(content(files_ + "f"), "a much longer text");
  second.end();
  EXPECT_EQ(put_second.wait(20s), 0);
  EXPECT_EQ(content(files_ + "f"), "short");
  EXPECT_THAT(temporaries(), IsEmpty());
}

// A write that the lost node may still apply is repeated after request_timeout and fence_time, so the former is made
// short.
TEST_F(TransferTest, ATransferSurvivesTheLossOfANode) {
  const std::string text(60000, 'n');  // less than a FIFO holds
  for (const std::string node : {"node0", "node1"}) {
    SCOPED_TRACE(node);
    up();
    const std::string description = directory_ + "/cluster.toml";
    write(description, std::regex_replace(content(description), std::regex("request_timeout = .*"),
                                          "request_timeout = \"" + std::to_string(patient(2s).count()) + "ns\""));
    write(files_ + "f", "old content");
    const std::string source = base_ / node;
    Fifo fifo(source);
    Child put(command({"put", source, "f"}));
    ASSERT_TRUE(wait_for_temporaries(1));
    ASSERT_EQ(kill(std::stoi(content(directory_ + "/run/" + node + ".pid")), SIGKILL), 0);
    fifo.send(text);
    fifo.end();
    EXPECT_EQ(put.wait(30s), 0);
    EXPECT_TRUE(content(files_ + "f") == text);
    EXPECT_THAT(temporaries(), IsEmpty());
    run({TUTTI_BINARY, "down", "--dir", directory_, "--now"});
  }
}

TEST_F(TransferTest, ReadOnlyFilesAreNotReplaced) {
  TUTTI_NEEDS(geteuid() == 0, "root: to act for other users");
  up();
  const Words as_user{"setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups"};
  write(base_ / "new", "new content");
  write(files_ + "new", "new content");
  for (const std::string& folder : {base_ / "folder", files_ + "folder"}) {
    fs::create_directory(folder);
    write(folder + "/f", "old content", 0444);
    for (const std::string& path : {folder, folder + "/f"}) ASSERT_EQ(chown(path.c_str(), 4711, 4711), 0);
  }
  for (const Words& words : {Words{"get", "new", base_ / "folder/f"}, Words{"put", base_ / "new", "folder/f"}}) {
    const Outcome outcome = tutti(words, as_user);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.output, HasSubstr("ermission denied"));
  }
  EXPECT_EQ(content(base_ / "folder/f"), "old content");
  EXPECT_EQ(content(files_ + "folder/f"), "old content");
  // A mode with which the user could not write to the file itself.
  chmod((base_ / "new").c_str(), 0444);
  chmod((files_ + "new").c_str(), 0444);
  EXPECT_EQ(tutti({"put", base_ / "new", "folder"}, as_user).status, 0);
  EXPECT_EQ(tutti({"get", "new", base_ / "folder"}, as_user).status, 0);
  for (const std::string& path : {files_ + "folder/new", base_ / "folder/new"}) {
    EXPECT_EQ(content(path), "new content");
    EXPECT_EQ(mode_of(path), 0444U);
    EXPECT_EQ(look(path).st_uid, 4711U);
  }
}

}  // namespace
}  // namespace tutti
