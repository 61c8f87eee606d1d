package peers;

import java.net.URI;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.async.SdkAsyncHttpClient;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * The Java KCL as a worker: polling, one stream, metrics off, all else at its defaults.
 *
 * <p>SIGTERM is the KCL's own graceful shutdown. Kinesis is spoken as the SDK does by default, in CBOR; over HTTP/1.1, since
 * HTTP/2 without TLS needs prior knowledge that no stand-in has.
 *
 * <p>Arguments: application, stream, worker, Kinesis URL, DynamoDB URL, output file, halt file (see {@link Recorder}).
 */
public final class Peer {
    private Peer() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 7) {
            System.err.println("usage: Peer APPLICATION STREAM WORKER KINESIS DYNAMODB OUTPUT HALT");
            System.exit(2);
        }
        String application = arguments[0];
        String stream = arguments[1];
        String worker = arguments[2];
        StaticCredentialsProvider credentials =
                StaticCredentialsProvider.create(AwsBasicCredentials.create("test", "test"));
        SdkAsyncHttpClient http = NettyNioAsyncHttpClient.builder()
                .protocol(Protocol.HTTP1_1)
                .maxConcurrency(200)
                .build();
        KinesisAsyncClient kinesis = KinesisAsyncClient.builder()
                .endpointOverride(URI.create(arguments[3]))
                .region(Region.US_EAST_1)
                .credentialsProvider(credentials)
                .httpClient(http)
                .build();
        DynamoDbAsyncClient dynamodb = DynamoDbAsyncClient.builder()
                .endpointOverride(URI.create(arguments[4]))
                .region(Region.US_EAST_1)
                .credentialsProvider(credentials)
                .httpClient(http)
                .build();
        // Never called, since metrics are off; the KCL wants one all the same.
        CloudWatchAsyncClient cloudwatch = CloudWatchAsyncClient.builder()
                .region(Region.US_EAST_1)
                .credentialsProvider(credentials)
                .httpClient(http)
                .build();
        Recorder.Output output = new Recorder.Output(Path.of(arguments[5]), Path.of(arguments[6]));
        run(new ConfigsBuilder(
                new SingleStreamTracker(
                        stream,
                        InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.TRIM_HORIZON)),
                application, kinesis, dynamodb, cloudwatch, worker, () -> new Recorder(output)), kinesis, stream);
    }

    private static void run(ConfigsBuilder configs, KinesisAsyncClient kinesis, String stream) throws Exception {
        var leases = configs.leaseManagementConfig().failoverTimeMillis(10_000);
        // Off, as on any machine that is neither EC2 nor a container: a share is then measured by throughput.
        leases.workerUtilizationAwareAssignmentConfig().disableWorkerMetrics(true);
        Scheduler scheduler = new Scheduler(
                configs.checkpointConfig(),
                configs.coordinatorConfig(),
                leases,
                configs.lifecycleConfig(),
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
                configs.processorConfig(),
                configs.retrievalConfig().retrievalSpecificConfig(
                        new PollingConfig(stream, kinesis).idleTimeBetweenReadsInMillis(500)));
        Thread main = new Thread(scheduler, "scheduler");
        AtomicBoolean told = new AtomicBoolean();
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            told.set(true);
            try {
                boolean clean = scheduler.startGracefulShutdown().get(30, TimeUnit.SECONDS);
                System.err.println("graceful shutdown: " + clean);
                ended.await(35, TimeUnit.SECONDS);
            } catch (Exception error) {
                System.err.println("graceful shutdown failed: " + error);
            }
        }));
        main.start();
        main.join();
        ended.countDown();
        if (!told.get()) {
            System.err.println("the scheduler ended by itself");
            System.exit(1);
        }
    }
}
