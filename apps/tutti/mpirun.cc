// SPDX-License-Identifier: Apache-2.0
// tutti mpirun: starts an MPI program with the library for its MPI preloaded (apps/mpi).
#include "mpirun.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "base/print_error.h"
#include "command.h"
#include "job/live.h"

extern char** environ;

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

struct MpirunOptions {
  std::string mpi;
  bool print = false;
  std::vector<std::string> command;
};

bool is_srun(const std::string& launcher) {
  return fs::path(launcher).filename() == "srun";
}

// Other programs, such as a script that starts the job, must not be run to learn their MPI.
bool has_version(const std::string& launcher) {
  const std::string name = fs::path(launcher).filename();
  return name.starts_with("mpiexec") || name.starts_with("mpirun") || name.starts_with("orterun");
}

// What a program prints, or nothing if it cannot be run. The words are arguments, not shell text.
std::string output_of(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += '\'';
    for (const char letter : word) letter == '\'' ? line += "'\\''" : line += letter;
    line += "' ";
  }
  const auto close = [](FILE* stream) { pclose(stream); };
  const std::unique_ptr<FILE, decltype(close)> stream(popen((line + "2>/dev/null").c_str(), "r"), close);
  std::string text;
  std::array<char, 4096> part{};
  for (std::size_t count = 0; stream && (count = fread(part.data(), 1, part.size(), stream.get())) > 0;)
    text.append(part.data(), count);
  return text;
}

std::string mpi_of_launcher(const std::string& launcher) {
  const std::string text = output_of({launcher, "--version"});
  if (text.find("Open MPI") != std::string::npos || text.find("OpenRTE") != std::string::npos) return "openmpi";
  return text.find("HYDRA") != std::string::npos || text.find("MPICH") != std::string::npos ? "mpich" : "";
}

// The MPI that the first program of the command line is linked with; scripts have none.
std::string mpi_of_program(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with('-') || ::access(words[i].c_str(), X_OK) != 0 || fs::is_directory(words[i])) continue;
    if (const std::string mpi = mpi_in_libraries(output_of({"ldd", words[i]})); !mpi.empty()) return mpi;
  }
  return "";
}

Result<std::string> choose_mpi(const MpirunOptions& given) {
  if (!given.mpi.empty()) return given.mpi;
  const std::string& launcher = given.command.front();
  const std::string by_program = mpi_of_program(given.command);
  const std::string by_launcher = has_version(launcher) ? mpi_of_launcher(launcher) : "";
  if (!by_program.empty() && !by_launcher.empty() && by_program != by_launcher)
    return fail(ErrorCode::kInvalid,
                fmt::format("{} belongs to {}, but the program is linked with {}. Use mpiexec.{}, or set --mpi.",
                            launcher, by_launcher, by_program, by_program));
  if (!by_program.empty()) return by_program;
  if (!by_launcher.empty()) return by_launcher;
  return fail(ErrorCode::kInvalid,
              "neither the launcher nor the program says which MPI it uses; set --mpi openmpi or "
              "--mpi mpich");
}

Result<std::string> find_library(const std::string& mpi) {
  std::error_code ignored;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  const std::string name = "libtutti-mpi-" + mpi + ".so";
  for (const char* folder : {"lib", TUTTI_LIBRARY_FOLDER, "lib64"})
    if (const fs::path path = prefix / folder / name; fs::exists(path, ignored)) return path.string();
  return fail(ErrorCode::kNotFound,
              fmt::format("{} is not in {}/lib. It is built if {} is installed (Debian: lib{}-dev).", name,
                          prefix.string(), mpi, mpi));
}

// All processes of a job need one number. Without a batch system this makes one.
void set_application() {
  const auto identity = job::identify_process({});
  if (!identity || identity->numbered) return;
  setenv("TUTTI_APP", std::to_string(std::random_device{}() % 32768).c_str(), 1);
}

// Names of the variables TUTTI_* of this process.
std::vector<std::string> tutti_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry)
    if (const std::string text = *entry; text.starts_with("TUTTI_")) names.push_back(text.substr(0, text.find('=')));
  return names;
}

int mpirun(const MpirunOptions& given) {
  const auto mpi = choose_mpi(given);
  if (!mpi) return report(mpi.error());
  const auto library = find_library(*mpi);
  if (!library) return report(library.error());
  set_application();
  if (given.print) {
    fmt::print("LD_PRELOAD={}\n", *library);
    return kDone;
  }
  const char* before = std::getenv("LD_PRELOAD");
  const std::string preload = before && *before ? *library + ":" + before : *library;
  std::vector<std::string> words = launch_words(given.command, {*mpi, preload, tutti_variables()});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  print_error("tutti mpirun: cannot run '{}': {}\n", words.front(), std::strerror(errno));
  return errno == ENOENT ? 127 : 126;
}

}  // namespace

std::string mpi_in_libraries(const std::string& text) {
  for (const char* name : {"libmpich.so", "libmpi.so.12"})
    if (text.find(name) != std::string::npos) return "mpich";
  return text.find("libmpi.so") != std::string::npos ? "openmpi" : "";
}

std::vector<std::string> launch_words(const std::vector<std::string>& command, const RankEnvironment& environment) {
  const bool named = !command.front().starts_with('-');
  std::vector<std::string> words{named ? command.front() : "mpiexec." + environment.mpi};
  const bool srun = is_srun(words.front()), openmpi = environment.mpi == "openmpi" && !srun;
  std::vector<std::string> set;
  if (srun) {
    set = {"--export=ALL,LD_PRELOAD=" + environment.preload};
  } else if (openmpi) {
    set = {"-x", "LD_PRELOAD=" + environment.preload};
    for (const std::string& name : environment.variables) set.insert(set.end(), {"-x", name});
  } else {
    set = {"-genv", "LD_PRELOAD", environment.preload};
  }
  words.insert(words.end(), set.begin(), set.end());
  for (std::size_t i = named ? 1 : 0; i < command.size(); ++i) {
    words.push_back(command[i]);
    // Open MPI's -x is for the program before the next colon only.
    if (openmpi && command[i] == ":") words.insert(words.end(), set.begin(), set.end());
  }
  return words;
}

Command mpirun_command() {
  return {"mpirun", "Start an MPI program with rearranged collective I/O (docs/mpi.md)", [](CommandLine& line) {
            auto given = std::make_shared<MpirunOptions>();
            line.option("--mpi", given->mpi, "MPI of the program, if it cannot be found").one_of({"openmpi", "mpich"});
            line.flag("--print", given->print, "Print the environment variable to set, and do not start the program");
            line.rest("command", given->command,
                      "The launcher (mpiexec.openmpi, mpiexec.mpich, srun) with its options and the program. After --, "
                      "the launcher may be left out: -- -n 4 ./program");
            line.action([given] { return mpirun(*given); });
          }};
}

}  // namespace tutti::cli
