package peers;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;

import software.amazon.kinesis.exceptions.InvalidStateException;
import software.amazon.kinesis.exceptions.KinesisClientLibDependencyException;
import software.amazon.kinesis.exceptions.ShutdownException;
import software.amazon.kinesis.exceptions.ThrottlingException;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/** Appends one line of JSON for each user record, then checkpoints, batch by batch. */
final class Recorder implements ShardRecordProcessor {
    /** The file of all shards of this process. */
    static final class Output {
        private final BufferedWriter writer;
        /** While this file exists, the process checkpoints inside the next aggregate and dies there. */
        private final Path halt;

        Output(Path path, Path halt) throws IOException {
            this.writer = Files.newBufferedWriter(
                    path, StandardCharsets.UTF_8, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            this.halt = halt;
        }

        synchronized void append(String shard, List<KinesisClientRecord> records) {
            try {
                for (KinesisClientRecord record : records) {
                    // Payloads of these tests are plain ASCII without quotes.
                    String data = StandardCharsets.US_ASCII.decode(record.data().duplicate()).toString();
                    writer.write(String.format(
                            "{\"shard\":\"%s\",\"sequence\":\"%s\",\"sub_sequence\":%d,\"data\":\"%s\"}%n",
                            shard, record.sequenceNumber(), record.subSequenceNumber(), data));
                }
                writer.flush();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        boolean halting() {
            return Files.exists(halt);
        }
    }

    private final Output output;
    private String shard;

    Recorder(Output output) {
        this.output = output;
    }

    @Override
    public void initialize(InitializationInput input) {
        shard = input.shardId();
        System.err.println("recorder: " + shard + " begins at " + input.extendedSequenceNumber());
    }

    @Override
    public void processRecords(ProcessRecordsInput input) {
        List<KinesisClientRecord> records = input.records();
        if (output.halting()) {
            int inside = inside(records);
            if (inside > 0) {
                haltAfter(records.subList(0, inside), input.checkpointer());
            }
        }
        output.append(shard, records);
        if (!records.isEmpty()) {
            checkpoint(input.checkpointer());
        }
    }

    /** How many records to take so that the last lies inside an aggregate, neither its first nor its last; 0 if none does. */
    private static int inside(List<KinesisClientRecord> records) {
        for (int at = 1; at + 1 < records.size(); at++) {
            KinesisClientRecord record = records.get(at);
            boolean more = records.get(at + 1).sequenceNumber().equals(record.sequenceNumber());
            if (record.subSequenceNumber() > 0 && more) {
                return at + 1;
            }
        }
        return 0;
    }

    private void haltAfter(List<KinesisClientRecord> records, RecordProcessorCheckpointer checkpointer) {
        output.append(shard, records);
        KinesisClientRecord last = records.get(records.size() - 1);
        try {
            checkpointer.checkpoint(last.sequenceNumber(), last.subSequenceNumber());
            System.err.printf(
                    "recorder: %s halts at %s/%d%n", shard, last.sequenceNumber(), last.subSequenceNumber());
        } catch (Exception error) {
            System.err.println("recorder: could not checkpoint before the halt: " + error);
        }
        Runtime.getRuntime().halt(9);
    }

    @Override
    public void leaseLost(LeaseLostInput input) {
        System.err.println("recorder: " + shard + " lost");
    }

    @Override
    public void shardEnded(ShardEndedInput input) {
        System.err.println("recorder: " + shard + " ended");
        checkpoint(input.checkpointer());
    }

    @Override
    public void shutdownRequested(ShutdownRequestedInput input) {
        System.err.println("recorder: " + shard + " is asked to stop");
        checkpoint(input.checkpointer());
    }

    private void checkpoint(RecordProcessorCheckpointer checkpointer) {
        try {
            checkpointer.checkpoint();
        } catch (ShutdownException | ThrottlingException | InvalidStateException
                | KinesisClientLibDependencyException error) {
            // The position stays where it was; a later checkpoint or the next owner takes care of it.
            System.err.println("recorder: " + shard + ": checkpoint refused: " + error);
        }
    }
}
