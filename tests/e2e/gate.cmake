# SPDX-License-Identifier: Apache-2.0
# TUTTI_GATE_FAULT_RUNS=200 bin/gate_faults_test runs 200 seeds instead of a few.
tutti_test(gate_faults SOURCES ${CMAKE_CURRENT_LIST_DIR}/gate_faults_test.cc USES gate LABELS e2e TIMEOUT 120)
target_compile_definitions(gate_faults_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>")
add_dependencies(gate_faults_test tutti)

find_package(MPI COMPONENTS C QUIET)
if(MPI_C_FOUND)
  add_executable(gate_mpi_job ${CMAKE_CURRENT_LIST_DIR}/gate_mpi_job.c)
  target_link_libraries(gate_mpi_job PRIVATE tutti_gate_shared MPI::MPI_C)
  add_test(NAME gate_mpi COMMAND ${CMAKE_CURRENT_LIST_DIR}/gate_mpi.sh $<TARGET_FILE:tutti> $<TARGET_FILE:gate_mpi_job>
           ${MPIEXEC_EXECUTABLE})
  set_tests_properties(gate_mpi PROPERTIES LABELS e2e TIMEOUT 60)
endif()
