// SPDX-License-Identifier: Apache-2.0
#include "mpirun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::cli {
namespace {

using testing::ElementsAre;

TEST(Mpirun, TheLibrariesOfAProgramSayItsMpi) {
  EXPECT_EQ(mpi_in_libraries("libmpi.so.40 => /lib/libmpi.so.40 (0x0000)"), "openmpi");
  EXPECT_EQ(mpi_in_libraries("libmpich.so.12 => /lib/libmpich.so.12 (0x0000)"), "mpich");
  EXPECT_EQ(mpi_in_libraries("libmpi.so.12 => /opt/mpich/lib/libmpi.so.12 (0x0000)"), "mpich");
  EXPECT_EQ(mpi_in_libraries("libc.so.6 => /lib/libc.so.6 (0x0000)"), "");
}

TEST(Mpirun, EveryProgramOfOpenMpiGetsTheLibrary) {
  EXPECT_THAT(launch_words({"mpiexec", "-n", "1", "./a", "x:y", ":", "-n", "2", "./b"},
                           {"openmpi", "/lib/t.so", {"TUTTI_APP"}}),
              ElementsAre("mpiexec", "-x", "LD_PRELOAD=/lib/t.so", "-x", "TUTTI_APP", "-n", "1", "./a", "x:y", ":",
                          "-x", "LD_PRELOAD=/lib/t.so", "-x", "TUTTI_APP", "-n", "2", "./b"));
}

TEST(Mpirun, WordsOfOtherLaunchersApplyToAllPrograms) {
  EXPECT_THAT(launch_words({"-n", "1", "./a", ":", "./b"}, {"mpich", "/lib/t.so", {"TUTTI_APP"}}),
              ElementsAre("mpiexec.mpich", "-genv", "LD_PRELOAD", "/lib/t.so", "-n", "1", "./a", ":", "./b"));
  EXPECT_THAT(launch_words({"/usr/bin/srun", "./a"}, {"openmpi", "/lib/t.so", {"TUTTI_APP"}}),
              ElementsAre("/usr/bin/srun", "--export=ALL,LD_PRELOAD=/lib/t.so", "./a"));
}

}  // namespace
}  // namespace tutti::cli
