# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=file -DEXPECTED=file -P CheckOutput.cmake: runs a program; it succeeds and prints exactly that.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
if(NOT printed STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} printed\n${printed}instead of\n${expected}")
endif()
