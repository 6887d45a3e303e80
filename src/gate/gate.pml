// SPDX-License-Identifier: Apache-2.0
// The gate's protocol as a model for spin: three jobs, two targets, jobs that die, a gate that dies and restarts,
// leases that expire. It models lock_table.cc (gate) and client.cc (job).
//
// Checked: never two holders of one target with valid leases (assert in the job); no lost wakeup (a job that waits
// forever is an invalid end state, because all other processes end); no unexpected message.
//
// Only the order of times is modelled. A job counts its lease from an earlier time than the gate (client.cc, granted()).
// So lease[j], "job j knows that its lease is valid", ends before the gate lets the lease expire. Recovery lasts one
// lease: it ends only when every holder of the old gate has re-asserted, died or lost its lease.
//
// check_model.sh runs the model, and also runs it with one rule broken (BREAK_...): spin must report that.

#define JOBS 3
#ifndef MORE_PHASES
#define MORE_PHASES 0  /* of job 0, after its first; 1 takes two to three times as long and also passes */
#endif
#define PHASES(j) (j == 0 -> 1 + MORE_PHASES : 1)
#define GATE_CRASHES 1
#define JOB_CRASHES 1
#define LEASES_LOST 1  /* in all */
#define NO_POSITION 255

#ifdef BREAK_RECOVERY
#define UNKNOWN(j) false
#else
#define UNKNOWN(j) (alive[j] && holding[j] && lease[j] && !holds[j])  /* a holder that recovery has to wait for */
#endif
#ifdef BREAK_WAKEUP
#define WAKE_OTHERS skip
#else
#define WAKE_OTHERS dispatch()
#endif
#ifdef BREAK_LEASE
#define LEASE_RUNS true
#else
#define LEASE_RUNS lease[j]
#endif

mtype = { REQ, REL, WAITED, HELD, BYE,  /* to the gate: WAITED and HELD re-assert; BYE is the end of a connection */
          GRANT, LOST };                /* to the job */

chan to_gate[JOBS] = [4] of { mtype, byte };  /* with the ticket */
chan to_job[JOBS] = [4] of { mtype, byte };

/* State outside the lock table */
bool gate_up = true;
bool connected[JOBS] = false;
bool alive[JOBS] = true;
byte targets[JOBS];        /* what job j asks for: bit 0 and bit 1 */
bool lease[JOBS] = false;
bool holding[JOBS] = false; /* as the job knows */
byte gate_crashes = GATE_CRASHES;
byte job_crashes = JOB_CRASHES;
byte leases_lost = LEASES_LOST;

/* The lock table */
bool recovering = false;
bool waits[JOBS] = false;
bool holds[JOBS] = false;
byte ticket_of[JOBS];
byte position[JOBS] = NO_POSITION; /* arrival stamps; the job keeps its own over a restart of the gate */

/* Scratch of the d_steps below; zero outside of them */
byte i, k, n, blocked;

/* Positions are 0, 1, 2 without gaps, so that the model stays finite. Jobs behind one that leaves move up. */
inline give_up_position(j) {
  if
  :: position[j] != NO_POSITION ->
    for (n : 0 .. JOBS - 1) {
      if :: position[n] != NO_POSITION && position[n] > position[j] -> position[n]-- :: else fi
    }
    n = 0;
    position[j] = NO_POSITION
  :: else
  fi
}

inline take_position(j) {
  if
  :: position[j] == NO_POSITION ->
    k = 0;
    for (n : 0 .. JOBS - 1) {
      if :: position[n] != NO_POSITION -> k++ :: else fi
    }
    n = 0;
    position[j] = k;
    k = 0
  :: else
  fi
}

inline forget(j) { waits[j] = false; holds[j] = false; ticket_of[j] = 0 }

/* fifo: in order of arrival; a waiting job reserves its targets. */
inline dispatch() {
  if
  :: recovering
  :: else ->
    for (i : 0 .. JOBS - 1) {
      if :: holds[i] -> blocked = blocked | targets[i] :: else fi
    }
    for (k : 0 .. JOBS - 1) {
      for (i : 0 .. JOBS - 1) {
        if
        :: waits[i] && position[i] == k ->
          if
          :: (targets[i] & blocked) == 0 ->
            waits[i] = false; holds[i] = true; lease[i] = true;
            to_job[i] ! GRANT(ticket_of[i])
          :: else
          fi;
          blocked = blocked | targets[i]
        :: else
        fi
      }
    }
    for (i : 0 .. JOBS - 1) {
      if :: holds[i] -> give_up_position(i) :: else fi
    }
    i = 0; k = 0; blocked = 0
  fi
}

inline hear(j) {
  d_step {
    to_gate[j] ? message(ticket);
    if
    :: message == REQ && !waits[j] && !holds[j] ->
      ticket_of[j] = ticket; waits[j] = true; give_up_position(j); take_position(j); dispatch()
    :: message == REL && (waits[j] || holds[j]) && ticket == ticket_of[j] ->
      forget(j); give_up_position(j); dispatch()
    :: message == WAITED && !waits[j] && !holds[j] ->
      ticket_of[j] = ticket; waits[j] = true;
      if :: !recovering -> give_up_position(j) :: else fi;  /* a new arrival */
      take_position(j); dispatch()
    :: message == HELD && !waits[j] && !holds[j] && recovering ->
      /* No other job can have re-asserted these targets. */
      for (i : 0 .. JOBS - 1) { assert(!(holds[i] && (targets[i] & targets[j]) != 0 && lease[i] && lease[j])) }
      i = 0;
      ticket_of[j] = ticket; holds[j] = true
    :: message == BYE ->
      forget(j); give_up_position(j); WAKE_OTHERS
    :: else  /* refused; changes nothing */
    fi;
    message = 0; ticket = 0
  }
}

proctype gate() {
  mtype message; byte ticket;
end:
  do
  :: gate_up && nempty(to_gate[0]) -> hear(0)
  :: gate_up && nempty(to_gate[1]) -> hear(1)
  :: gate_up && nempty(to_gate[2]) -> hear(2)
  /* A lease expires. */
  :: d_step { gate_up && holds[0] && !lease[0] -> to_job[0] ! LOST(ticket_of[0]); forget(0); dispatch() }
  :: d_step { gate_up && holds[1] && !lease[1] -> to_job[1] ! LOST(ticket_of[1]); forget(1); dispatch() }
  :: d_step { gate_up && holds[2] && !lease[2] -> to_job[2] ! LOST(ticket_of[2]); forget(2); dispatch() }
  /* Recovery is over. */
  :: d_step { gate_up && recovering && !UNKNOWN(0) && !UNKNOWN(1) && !UNKNOWN(2) -> recovering = false; dispatch() }
  /* kill -9: all connections and the messages in transit are lost. */
  :: d_step { gate_up && gate_crashes > 0 ->
              gate_crashes--; gate_up = false; recovering = true;
              for (i : 0 .. JOBS - 1) {
                forget(i); connected[i] = false;
                if :: !holding[i] -> lease[i] = false :: else fi;
                if :: !alive[i] -> give_up_position(i) :: else fi;
                do :: nempty(to_gate[i]) -> to_gate[i] ? message(ticket) :: empty(to_gate[i]) -> break od;
                do :: nempty(to_job[i]) -> to_job[i] ? message(ticket) :: empty(to_job[i]) -> break od
              }
              i = 0; message = 0; ticket = 0 }
  :: !gate_up -> gate_up = true
  od
}

proctype job(byte j) {
  byte phases = 0, mine = 0, ticket;
  {
    do
    :: phases == PHASES(j) -> break
    :: else ->
      /* begin(): ask, over a new connection if there is none, and wait. */
      if
      :: atomic { connected[j] -> to_gate[j] ! REQ(mine) }
      :: atomic { !connected[j] && gate_up -> connected[j] = true; to_gate[j] ! REQ(mine) }
      fi;
      do
      :: atomic { to_job[j] ? GRANT(ticket) ->
                  if
                  :: ticket != mine
                  :: ticket == mine && LEASE_RUNS -> holding[j] = true; lease[j] = true; break
                  :: else -> /* was suspended for longer than the lease: ask again */
                    to_gate[j] ! REL(mine); mine = (mine + 1) % 4; to_gate[j] ! REQ(mine)
                  fi }
      :: atomic { to_job[j] ? LOST(ticket) ->
                  if
                  :: ticket != mine
                  :: else -> to_gate[j] ! REL(mine); mine = (mine + 1) % 4; to_gate[j] ! REQ(mine)
                  fi }
      :: atomic { !connected[j] && gate_up -> connected[j] = true; to_gate[j] ! WAITED(mine) }
      od;
      /* The phase. */
      skip;
      d_step {
        for (k : 0 .. JOBS - 1) {
          assert(!(k != j && alive[k] && holding[k] && lease[k] && lease[j] && (targets[k] & targets[j]) != 0))
        }
        k = 0
      }
      do
      :: atomic { !connected[j] && gate_up && lease[j] -> connected[j] = true; to_gate[j] ! HELD(mine) }
      :: atomic { to_job[j] ? LOST(ticket) -> skip }
      :: atomic { to_job[j] ? GRANT(ticket) -> assert(ticket != mine) }
      :: break
      od;
      /* end() */
      atomic {
        holding[j] = false;
        if :: connected[j] -> to_gate[j] ! REL(mine) :: else fi;
        mine = (mine + 1) % 4; ticket = 0; phases++
      }
    od
  } unless { !alive[j] }
}

/* Kills jobs and lets leases expire, at any moment. */
proctype fate() {
end:
  do
  :: atomic { job_crashes > 0 ->
              job_crashes--;
              if :: alive[0] -> k = 0 :: alive[1] -> k = 1 :: alive[2] -> k = 2 fi;
              d_step {
                alive[k] = false; holding[k] = false;
                if
                :: connected[k] -> connected[k] = false; to_gate[k] ! BYE(0)
                :: else -> give_up_position(k)
                fi;
                k = 0
              } }
  :: d_step { leases_lost > 0 && lease[0] -> leases_lost--; lease[0] = false }
  :: d_step { leases_lost > 0 && lease[1] -> leases_lost--; lease[1] = false }
  :: d_step { leases_lost > 0 && lease[2] -> leases_lost--; lease[2] = false }
  od
}

init {
  atomic {
    /* Figure 3.5: the middle job shares a target with each of the others. */
    targets[0] = 1; targets[1] = 3; targets[2] = 2;
    run gate(); run job(0); run job(1); run job(2); run fate()
  }
}
